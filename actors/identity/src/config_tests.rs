use super::*;

fn checked() -> Config {
    Config {
        mode: Mode::Jwt,
        algorithms: vec![Algorithm::HS256],
        hmac_secret: Secret::new("0123456789abcdef0123456789abcdef"),
        issuer: "https://issuer.example".to_owned(),
        audience: "freshet".to_owned(),
        ..Config::default()
    }
}

fn keys(config: &Config) -> Vec<String> {
    config.problems().into_iter().flat_map(|(path, _)| path).collect()
}

#[test]
fn settings_that_would_not_check_a_token_are_reported() {
    type Change = fn(&mut Config);
    let cases: [(Change, &[&str]); 15] = [
        (|_| (), &[]),
        (|config| config.algorithms.clear(), &["algorithms", "hmac_secret"]),
        (|config| config.hmac_secret = Secret::new("0123456789abcdef0123456789abcde"), &["hmac_secret"]),
        (
            |config| config.hmac_secret = Secret::new("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA"),
            &["hmac_secret"],
        ),
        (|config| config.algorithms.push(Algorithm::RS256), &["algorithms"]),
        (|config| config.issuer.clear(), &["issuer"]),
        (|config| config.audience.clear(), &["audience"]),
        (|config| config.audience_not_checked = true, &["audience"]),
        (|config| config.algorithms = vec![Algorithm::EdDSA], &["hmac_secret", "algorithms"]),
        (|config| config.jwks_file = "jwks.json".to_owned(), &["algorithms"]),
        (
            |config| {
                config.algorithms.push(Algorithm::RS256);
                config.jwks_file = "jwks.json".to_owned();
                config.public_key_file = "key.pem".to_owned();
            },
            &["algorithms"],
        ),
        (|config| config.subject_claim.clear(), &["subject_claim"]),
        (|config| config.cookie_name = "a=b".to_owned(), &["cookie_name"]),
        (|config| config.cookie_name = "__Host-session".to_owned(), &[]),
        (|config| config.anonymous_channels = vec!["*".to_owned(); 65], &["anonymous_channels"]),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let mut config = checked();
        change(&mut config);
        assert_eq!(keys(&config), expected, "case {number}");
    }
}

#[test]
fn keys_are_fetched_safely_or_not_at_all() {
    let cases = [
        ("https://issuer.example/jwks.json", true),
        ("http://127.0.0.1:8080/jwks.json", true),
        ("http://[::1]/jwks.json", true),
        ("http://127.0.0.1", true),
        ("http://issuer.example/jwks.json", false),
        ("http://localhost/jwks.json", false),
        ("http://127.0.0.1.issuer.example/jwks.json", false),
        ("http://127.0.0.1:80@issuer.example/jwks.json", false),
        ("file:///etc/jwks.json", false),
    ];
    for (url, is_allowed) in cases {
        let mut config = checked();
        config.algorithms.push(Algorithm::ES256);
        config.jwks_url = url.to_owned();
        assert_eq!(config.problems().is_empty(), is_allowed, "{url}");
    }
}

#[test]
fn who_says_how_tokens_are_checked_and_not_that_they_are_is_told_so() {
    assert_eq!(keys(&Config::default()), [""; 0]);
    type Change = fn(&mut Config);
    let changes: [Change; 9] = [
        |config| config.algorithms.push(Algorithm::HS256),
        |config| config.hmac_secret = Secret::new("0123456789abcdef0123456789abcdef"),
        |config| config.public_key_file = "key.pem".to_owned(),
        |config| config.jwks_file = "jwks.json".to_owned(),
        |config| config.jwks_url = "https://issuer.example/jwks.json".to_owned(),
        |config| config.issuer = "https://issuer.example".to_owned(),
        |config| config.audience = "freshet".to_owned(),
        |config| config.cookie_name = "session".to_owned(),
        |config| config.anonymous_channels.push("news".to_owned()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut config = Config::default();
        change(&mut config);
        assert_eq!(keys(&config), ["mode"], "case {number}");
    }
}
