//! Checks the signatures of AWS (SigV4) as a server does: written from the published algorithm, without the crates that sign.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How far the clock of a caller may be off.
pub const MAX_SKEW: Duration = Duration::from_secs(300);

/// Whose signatures are taken, and for what.
#[derive(Clone, Debug)]
pub struct Account {
    /// The public name of the key.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: String,
    /// What a temporary identity sends along.
    pub session_token: Option<String>,
    /// The region that the server is in.
    pub region: String,
    /// The service that it is.
    pub service: String,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// Names in small letters.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no signature, or it is malformed.
    Missing,
    /// It leaves out something that must be signed.
    Unsigned,
    /// Its key is unknown.
    UnknownKey,
    /// It is for another region, service or day.
    Scope,
    /// The session token is not that of the key.
    Token,
    /// It was made too long ago, or in the future.
    Late,
    /// It does not fit to the request.
    Mismatch,
}

impl Request {
    /// The names of the signed headers, as the signature names them.
    pub fn signed_headers(&self) -> Option<&str> {
        Some(Proof::parse(self.headers.get("authorization")?)?.signed)
    }

    /// What is signed of this request.
    fn canonical(&self, signed: &[&str]) -> Option<String> {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut lines = vec![self.method.clone(), canonical_path(path), canonical_query(query)?];
        for name in signed {
            let value = self.headers.get(*name)?;
            let words: Vec<&str> = value.split_ascii_whitespace().collect();
            lines.push(format!("{name}:{}", words.join(" ")));
        }
        lines.extend([String::new(), signed.join(";"), hex(&Sha256::digest(&self.body))]);
        Some(lines.join("\n"))
    }
}

impl Account {
    /// Checks a request that arrived at `now`.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn check(&self, request: &Request, now: SystemTime) -> Result<(), Refused> {
        let header = |name: &str| request.headers.get(name).map(String::as_str);
        let proof = header("authorization").and_then(Proof::parse).ok_or(Refused::Missing)?;
        let date = header("x-amz-date").ok_or(Refused::Missing)?;
        let signed: Vec<&str> = proof.signed.split(';').collect();
        let needed = ["host", "x-amz-date"].into_iter();
        let optional = ["content-type", "x-amz-security-token"]
            .into_iter()
            .filter(|name| header(name).is_some());
        if !signed.is_sorted() || needed.chain(optional).any(|name| !signed.contains(&name)) {
            return Err(Refused::Unsigned);
        }
        if proof.key != self.access_key_id {
            return Err(Refused::UnknownKey);
        }
        let day = date.split('T').next().unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        if proof.scope != scope {
            return Err(Refused::Scope);
        }
        if header("x-amz-security-token") != self.session_token.as_deref() {
            return Err(Refused::Token);
        }
        let time = time(date).ok_or(Refused::Missing)?;
        if now.duration_since(time).unwrap_or_else(|error| error.duration()) > MAX_SKEW {
            return Err(Refused::Late);
        }
        if self.signature(request, &signed, date, &scope).as_deref() != Some(proof.signature) {
            return Err(Refused::Mismatch);
        }
        Ok(())
    }

    fn signature(&self, request: &Request, signed: &[&str], date: &str, scope: &str) -> Option<String> {
        let digest = hex(&Sha256::digest(request.canonical(signed)?));
        let text = format!("{ALGORITHM}\n{date}\n{scope}\n{digest}");
        let mut key = format!("AWS4{}", self.secret_access_key).into_bytes();
        for part in scope.split('/') {
            key = hmac(&key, part.as_bytes()).to_vec();
        }
        Some(hex(&hmac(&key, text.as_bytes())))
    }
}

/// The parts of an `Authorization` header.
struct Proof<'a> {
    key: &'a str,
    scope: &'a str,
    signed: &'a str,
    signature: &'a str,
}

impl<'a> Proof<'a> {
    fn parse(header: &'a str) -> Option<Self> {
        let mut parts = header.strip_prefix(ALGORITHM)?.split(',').map(str::trim);
        let (key, scope) = parts.next()?.strip_prefix("Credential=")?.split_once('/')?;
        let signed = parts.next()?.strip_prefix("SignedHeaders=")?;
        let signature = parts.next()?.strip_prefix("Signature=")?;
        parts.next().is_none().then_some(Self {
            key,
            scope,
            signed,
            signature,
        })
    }
}

/// Without dots and empty segments, and encoded once more than it was sent.
fn canonical_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() {
        "/"
    } else {
        ""
    };
    let encoded: Vec<String> = segments.iter().map(|segment| encode(segment.as_bytes())).collect();
    format!("/{}{end}", encoded.join("/"))
}

/// Decoded, encoded again, and sorted.
fn canonical_query(query: &str) -> Option<String> {
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((encode(&decode(name)?), encode(&decode(value)?)));
    }
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(pairs.join("&"))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Of a query: a plus is a space.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    Some(bytes)
}

/// HMAC-SHA256 of RFC 2104; every key but the first has the length of a digest.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8, text: &[u8]| -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(block.map(|byte| byte ^ pad));
        hash.update(text);
        hash.finalize().into()
    };
    keyed(0x5c, &keyed(0x36, text))
}

fn hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}

/// The moment of `20150830T123600Z`.
fn time(text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z')?.replacen('T', "", 1);
    if digits.len() != 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + number(8, 10)? * 3600 + number(10, 12)? * 60 + number(12, 14)?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of AWS's own suite of tests.
    fn account(token: Option<&str>) -> Account {
        Account {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: token.map(str::to_owned),
            region: "us-east-1".into(),
            service: "service".into(),
        }
    }

    fn request(method: &str, target: &str, more: &[(&str, &str)], signature: &str) -> Request {
        let mut headers: BTreeMap<String, String> =
            [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")]
                .iter()
                .chain(more)
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
        let signed: Vec<&str> = headers.keys().map(String::as_str).collect();
        let header = format!(
            "{ALGORITHM} Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={}, \
             Signature={signature}",
            signed.join(";")
        );
        headers.insert("authorization".into(), header);
        Request {
            method: method.into(),
            target: target.into(),
            headers,
            body: Vec::new(),
        }
    }

    const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

    #[test]
    fn takes_the_signatures_of_the_suite() {
        let now = time("20150830T123600Z").expect("time");
        assert_eq!(now, UNIX_EPOCH + Duration::from_secs(1_440_938_160));
        for (method, target, more, signature) in VECTORS {
            let token = more
                .iter()
                .any(|(name, _)| *name == "x-amz-security-token")
                .then_some(TOKEN);
            let request = request(method, target, more, signature);
            assert_eq!(account(token).check(&request, now), Ok(()), "{method} {target}");
        }
    }

    /// Method, target, headers beside host and date, signature.
    type Vector = (
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
    );

    const VECTORS: &[Vector] = &[
        // get-vanilla
        (
            "GET",
            "/",
            &[],
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        // get-vanilla-query-order-encoded
        (
            "GET",
            "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
            &[],
            "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
        ),
        // get-vanilla-query-order-key-case
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            &[],
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        // get-vanilla-query-unreserved
        (
            "GET",
            "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            &[],
            "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        ),
        // get-vanilla-empty-query-key
        (
            "GET",
            "/?Param1=value1",
            &[],
            "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
        ),
        // get-unreserved
        (
            "GET",
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            &[],
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        // get-slashes-normalized
        (
            "GET",
            "//example//",
            &[],
            "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
        ),
        // get-slash-dot-slash-normalized
        (
            "GET",
            "/./",
            &[],
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        // get-slash-pointless-dot-normalized
        (
            "GET",
            "/./example",
            &[],
            "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
        ),
        // get-relative-relative-normalized
        (
            "GET",
            "/example1/example2/../..",
            &[],
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        // get-header-value-trim
        (
            "GET",
            "/",
            &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        // get-vanilla-with-session-token
        (
            "GET",
            "/",
            &[("x-amz-security-token", TOKEN)],
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
        // post-vanilla
        (
            "POST",
            "/",
            &[],
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        // post-vanilla-query
        (
            "POST",
            "/?Param1=value1",
            &[],
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        // post-header-key-sort
        (
            "POST",
            "/",
            &[("my-header1", "value1")],
            "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        ),
        // post-header-value-case
        (
            "POST",
            "/",
            &[("my-header1", "VALUE1")],
            "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ),
    ];

    #[test]
    fn refuses_what_was_changed() {
        let now = time("20150830T123600Z").expect("time");
        let (method, target, more, signature) = VECTORS.iter().find(|(.., more, _)| more.len() == 1).expect("a vector");
        let good = request(method, target, more, signature);
        let account = account(Some(TOKEN));
        assert_eq!(account.check(&good, now), Ok(()));
        let refused = |change: fn(&mut Request)| {
            let mut request = good.clone();
            change(&mut request);
            account.check(&request, now)
        };
        assert_eq!(
            refused(|request| request.method = "POST".into()),
            Err(Refused::Mismatch)
        );
        assert_eq!(refused(|request| request.target = "/x".into()), Err(Refused::Mismatch));
        assert_eq!(refused(|request| request.target = "/?x".into()), Err(Refused::Mismatch));
        assert_eq!(refused(|request| request.body.push(b'x')), Err(Refused::Mismatch));
        let change = |name: &str, value: &str| {
            let mut request = good.clone();
            request.headers.insert(name.into(), value.into());
            account.check(&request, now)
        };
        assert_eq!(change("host", "example.com"), Err(Refused::Mismatch));
        assert_eq!(change("x-amz-date", "20150830T123601Z"), Err(Refused::Mismatch));
        assert_eq!(change("x-amz-date", "20150831T123600Z"), Err(Refused::Scope));
        assert_eq!(change("x-amz-security-token", "other"), Err(Refused::Token));
        assert_eq!(change("content-type", "text/plain"), Err(Refused::Unsigned));
        assert_eq!(
            refused(|request| drop(request.headers.remove("authorization"))),
            Err(Refused::Missing)
        );
        for late in [now + MAX_SKEW * 2, now - MAX_SKEW * 2] {
            assert_eq!(account.check(&good, late), Err(Refused::Late));
        }
        let other = Account {
            secret_access_key: "other".into(),
            ..account.clone()
        };
        assert_eq!(other.check(&good, now), Err(Refused::Mismatch));
    }
}
