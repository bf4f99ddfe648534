use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use http::Request;
use rendezvous_transport::signer::Signer as _;
use rendezvous_wire::secret::Secret;

use super::*;

/// A home folder with the two files.
struct Home(tempfile::TempDir);

const CONFIG: &str = "\
[default]
region = eu-west-1
[profile two]
region = eu-west-2
aws_access_key_id = AK-SHADOWED
[profile printed]
region = eu-west-3
credential_process = printf '%s' '{\"Version\":1,\"AccessKeyId\":\"AK-PRINTED\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"t\",\"Expiration\":\"2099-01-01T00:00:00Z\"}'
[profile role]
region = r
role_arn = arn:aws:iam::123456789012:role/x
source_profile = two
[profile half]
region = r
aws_access_key_id = AK-HALF
";
const CREDENTIALS: &str = "\
[default]
aws_access_key_id = AK-DEFAULT
aws_secret_access_key = s
[two]
aws_access_key_id=AK-TWO
aws_secret_access_key=s # of two
aws_session_token=t
";

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("folder"));
        home.write("config", CONFIG);
        home.write("credentials", CREDENTIALS);
        home
    }

    fn write(&self, name: &str, text: &str) {
        let folder = self.0.path().join(".aws");
        fs::create_dir_all(&folder).expect("folder");
        fs::write(folder.join(name), text).expect("file");
    }

    async fn aws(&self, options: Options, more: &[(&str, &str)]) -> Result<Aws, AwsError> {
        let home = self.0.path().to_str().expect("text");
        let mut variables = vec![("HOME", home)];
        variables.extend(more);
        Aws::in_environment(options, Env::from_slice(&variables)).await
    }

    /// Key and region.
    async fn found(&self, options: Options, more: &[(&str, &str)]) -> Result<(String, String), AwsError> {
        let aws = self.aws(options, more).await?;
        let keys = aws.keys().await?;
        Ok((keys.access_key_id.expose().to_owned(), aws.region))
    }
}

fn plain() -> Options {
    Options {
        profile: None,
        region: None,
        service: DEFAULT_SERVICE.to_owned(),
        keys: None,
    }
}

fn profile(name: &str) -> Options {
    Options {
        profile: Some(name.to_owned()),
        ..plain()
    }
}

fn keys(id: &str) -> Keys {
    Keys {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new("s"),
        session_token: None,
    }
}

fn with_keys(options: Options) -> Options {
    Options {
        keys: Some(keys("AK-ENV")),
        ..options
    }
}

#[tokio::test]
async fn the_named_profile_counts_most_then_the_environment_then_the_files() {
    let home = Home::new();
    let named = [("AWS_PROFILE", "two")];
    for (options, more, key, region) in [
        (plain(), [].as_slice(), "AK-DEFAULT", "eu-west-1"),
        (profile("two"), &[], "AK-TWO", "eu-west-2"),
        (profile("printed"), &[], "AK-PRINTED", "eu-west-3"),
        (plain(), &named, "AK-TWO", "eu-west-2"),
        (profile("default"), &named, "AK-DEFAULT", "eu-west-1"),
        (with_keys(plain()), &named, "AK-ENV", "eu-west-2"),
        (with_keys(profile("two")), &[], "AK-TWO", "eu-west-2"),
        (profile("two"), &[("AWS_DEFAULT_REGION", "d")], "AK-TWO", "d"),
        (
            profile("two"),
            &[("AWS_DEFAULT_REGION", "d"), ("AWS_REGION", "e")],
            "AK-TWO",
            "e",
        ),
        (profile("two"), &[("AWS_REGION", " ")], "AK-TWO", "eu-west-2"),
    ] {
        let found = home.found(options, more).await.expect(key);
        assert_eq!(found, (key.to_owned(), region.to_owned()));
    }
    let options = Options {
        region: Some("flag".to_owned()),
        ..plain()
    };
    let found = home.found(options, &[("AWS_REGION", "e")]).await.expect("flag");
    assert_eq!(found.1, "flag");
}

#[tokio::test]
async fn the_files_can_be_elsewhere() {
    let home = Home::new();
    home.write(
        "other",
        "[default]\naws_access_key_id = AK-OTHER\naws_secret_access_key = s\n",
    );
    let region = ("AWS_REGION", "r");
    for place in [
        "~/.aws/other".to_owned(),
        home.0.path().join(".aws/other").display().to_string(),
    ] {
        let more = [region, ("AWS_SHARED_CREDENTIALS_FILE", place.as_str())];
        assert_eq!(home.found(plain(), &more).await.expect("keys").0, "AK-OTHER");
    }
    // Without a home and files there may still be keys in the environment.
    let env = Env::from_slice(&[region]);
    let aws = Aws::in_environment(with_keys(plain()), env).await.expect("region");
    assert_eq!(aws.keys().await.expect("keys"), keys("AK-ENV"));
}

#[tokio::test]
async fn says_what_is_missing() {
    let home = Home::new();
    let region = [("AWS_REGION", "r")];
    let error = async |options, more: &[(&str, &str)]| home.found(options, more).await.expect_err("an error");
    assert!(matches!(error(profile("none"), &[]).await, AwsError::NoRegion(name) if name == "none"));
    assert!(matches!(error(profile("none"), &region).await, AwsError::NoKeys(name) if name == "none"));
    assert!(matches!(error(profile("half"), &[]).await, AwsError::NoKeys(_)));
    let unsupported = error(profile("role"), &[]).await;
    assert!(unsupported.to_string().contains("role_arn"), "{unsupported}");
    home.write("config", "[default\nregion = x\n");
    assert!(matches!(error(plain(), &region).await, AwsError::Syntax(_)));
    home.write("config", &"#".repeat(2 * 1024 * 1024));
    assert!(matches!(error(plain(), &region).await, AwsError::File { .. }));
    fs::remove_file(home.0.path().join(".aws/config")).expect("remove");
    fs::create_dir(home.0.path().join(".aws/config")).expect("folder");
    assert!(matches!(error(plain(), &region).await, AwsError::File { .. }));
}

#[tokio::test]
async fn keys_are_looked_up_each_time() {
    let home = Home::new();
    let aws = home.aws(plain(), &[]).await.expect("region");
    assert_eq!(aws.keys().await.expect("keys").access_key_id.expose(), "AK-DEFAULT");
    home.write("credentials", &CREDENTIALS.replace("AK-DEFAULT", "AK-RENEWED"));
    assert_eq!(aws.keys().await.expect("keys").access_key_id.expose(), "AK-RENEWED");
    home.write("credentials", "");
    aws.signer().await.expect_err("no keys any more");
}

#[tokio::test]
async fn a_program_that_prints_no_keys_is_told_so() {
    let ask = async |command: &str| process::ask(&Secret::new(command)).await.expect_err(command);
    assert!(matches!(ask("exit 3").await, AwsError::ProcessFailed(status) if status.code() == Some(3)));
    assert!(matches!(ask("/does/not/exist").await, AwsError::ProcessFailed(_)));
    assert!(matches!(ask("yes secret").await, AwsError::ProcessAnswer(_)));
    for answer in [
        "secret",
        "{}",
        r#"{"Version":2,"AccessKeyId":"secret","SecretAccessKey":"secret"}"#,
        r#"{"Version":"secret","AccessKeyId":"secret","SecretAccessKey":"secret"}"#,
    ] {
        let error = ask(&format!("printf '%s' '{answer}'")).await;
        assert!(matches!(error, AwsError::ProcessAnswer(_)), "{answer}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_hangs_is_given_up() {
    let error = process::ask(&Secret::new("exec sleep 1000")).await.expect_err("late");
    assert!(matches!(error, AwsError::ProcessTimeout), "{error:?}");
}

#[test]
fn nothing_prints_a_secret() {
    let mut keys = keys("AK-ENV");
    keys.secret_access_key = Secret::new("the-secret");
    keys.session_token = Some(Secret::new("the-token"));
    let signer = SigV4::new(&keys, "r".to_owned(), "s".to_owned());
    let options = Options {
        keys: Some(keys.clone()),
        ..plain()
    };
    let request = Request::get("wss://h.example/").body([].as_slice()).expect("request");
    let headers = signer.sign(&request).expect("headers");
    let text = format!("{keys:?} {signer:?} {options:?} {headers:?}");
    for secret in ["the-secret", "the-token", "AK-ENV"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(Keys::unpack(&keys.pack()), Some(keys));
    assert_eq!(Keys::unpack(&Secret::new("a-token")), None);
}

/// Of AWS's own suite of tests: method, target, a header beside host and date, session token, signature.
type Vector = (
    &'static str,
    &'static str,
    Option<(&'static str, &'static str)>,
    Option<&'static str>,
    &'static str,
);

const VECTORS: [Vector; 8] = [
    (
        "GET",
        "/",
        None,
        None,
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "GET",
        "//example//",
        None,
        None,
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    (
        "GET",
        "/./example",
        None,
        None,
        "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
    ),
    (
        "GET",
        "/?Param2=value2&Param1=value1",
        None,
        None,
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        None,
        None,
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    (
        "GET",
        "/",
        None,
        Some("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"),
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    ),
    (
        "POST",
        "/",
        None,
        None,
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "POST",
        "/",
        Some(("my-header1", "value1")),
        None,
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
];

#[test]
fn signs_what_the_suite_says() {
    for (method, target, header, token, signature) in VECTORS {
        let keys = Keys {
            access_key_id: Secret::new("AKIDEXAMPLE"),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: token.map(Secret::new),
        };
        let signer = SigV4::new(&keys, "us-east-1".to_owned(), "service".to_owned());
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://example.amazonaws.com{target}"));
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body([].as_slice()).expect("request");
        let time = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let headers = signer.sign_at(&request, time).expect("headers");
        let text = |name: &str| headers.get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(text("x-amz-date"), Some("20150830T123600Z"));
        assert_eq!(text("x-amz-security-token"), token);
        let proof = text("authorization").expect("proof");
        assert!(proof.ends_with(signature), "{method} {target}: {proof}");
        assert_eq!(headers.len(), if token.is_some() { 3 } else { 2 });
    }
}
