use super::HandshakeError;

/// Takes fields of fixed length off the front of a message whose length was checked.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    message_len: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            message_len: message.len(),
        }
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], HandshakeError> {
        let (field, rest) = self.rest.split_first_chunk().ok_or(HandshakeError::Length {
            len: self.message_len,
            at_least: self.message_len + 1,
        })?;
        self.rest = rest;
        Ok(field)
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// A decrypted field that must have this length.
pub(super) fn exactly<const N: usize>(plaintext: &[u8]) -> Result<&[u8; N], HandshakeError> {
    plaintext.try_into().map_err(|_| HandshakeError::NotAuthentic)
}
