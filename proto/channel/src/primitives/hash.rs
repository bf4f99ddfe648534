//! SHA-256 and the HKDF of Noise, which is RFC 5869 with the chaining key as salt and no info.

use hkdf::Hkdf;
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

pub(crate) const HASH_LEN: usize = 32;

pub(crate) type Hash = [u8; HASH_LEN];
pub(crate) type SecretHash = Zeroizing<Hash>;

pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// `N` outputs of 32 bytes; Noise asks for two or three.
pub(crate) fn hkdf<const N: usize>(chaining_key: &Hash, input: &[u8]) -> [SecretHash; N] {
    let mut output = [[0; HASH_LEN]; N];
    Hkdf::<Sha256>::new(Some(chaining_key), input)
        .expand(&[], output.as_flattened_mut())
        .expect("three hashes are below the limit of 255");
    let secret = output.map(Zeroizing::new);
    output.zeroize();
    secret
}

/// One output of 32 bytes for a purpose that `label` names.
pub(crate) fn hkdf_labelled(salt: &Hash, secret: &[u8], label: &[u8]) -> SecretHash {
    let mut output = Zeroizing::new([0; HASH_LEN]);
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(label, output.as_mut_slice())
        .expect("one hash is below the limit of 255");
    output
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};

    use super::*;

    /// The definition in section 4.3 of the Noise specification.
    #[test]
    fn hkdf_is_that_of_noise() {
        let hmac = |key: &[u8], parts: &[&[u8]]| -> Vec<u8> {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        };
        let ck = [9; 32];
        let temp = hmac(&ck, &[b"input"]);
        let first = hmac(&temp, &[&[1]]);
        let second = hmac(&temp, &[&first, &[2]]);
        let third = hmac(&temp, &[&second, &[3]]);
        let [a, b, c] = hkdf::<3>(&ck, b"input");
        assert_eq!((a.to_vec(), b.to_vec(), c.to_vec()), (first, second, third));
        let [d, e] = hkdf::<2>(&ck, b"input");
        assert_eq!((d, e), (a, b));
    }
}
