use std::net::SocketAddr;
use std::str::FromStr;

/// Where to listen: `ws://IP:PORT`, `stdio` or `stdio://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenUrl {
    /// A WebSocket listener at this address.
    WebSocket(SocketAddr),
    /// One client on stdin and stdout.
    Stdio,
}

/// Why a text names no place to listen.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenUrlError {
    /// Another scheme.
    #[error("unsupported --listen URL `{0}`; expected `ws://IP:PORT` or `stdio`")]
    Unsupported(String),
    /// No address; a host name is none, because it may have several.
    #[error("invalid websocket --listen URL `{0}`; expected `ws://IP:PORT`")]
    Address(String),
}

impl FromStr for ListenUrl {
    type Err = ListenUrlError;

    fn from_str(text: &str) -> Result<Self, ListenUrlError> {
        if text == "stdio" || text == "stdio://" {
            return Ok(Self::Stdio);
        }
        let address = text
            .strip_prefix("ws://")
            .ok_or_else(|| ListenUrlError::Unsupported(text.to_owned()))?;
        address
            .parse()
            .map(Self::WebSocket)
            .map_err(|_| ListenUrlError::Address(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_addresses_and_stdio() {
        let parse = |text: &str| text.parse::<ListenUrl>();
        assert_eq!(parse("stdio"), Ok(ListenUrl::Stdio));
        assert_eq!(parse("stdio://"), Ok(ListenUrl::Stdio));
        for address in ["127.0.0.1:0", "0.0.0.0:80", "[::1]:7000"] {
            let expected = ListenUrl::WebSocket(address.parse().expect("address"));
            assert_eq!(parse(&format!("ws://{address}")), Ok(expected));
        }
        for bad in ["ws://localhost:1", "ws://127.0.0.1", "ws://127.0.0.1:1/", "ws://"] {
            assert_eq!(parse(bad), Err(ListenUrlError::Address(bad.to_owned())));
        }
        for bad in ["", "wss://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1", "STDIO"] {
            assert_eq!(parse(bad), Err(ListenUrlError::Unsupported(bad.to_owned())));
        }
    }
}
