//! What a request brings along to say who it is from. Pure.

/// The parts of a request that may carry a credential, as they came.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The value of each `Authorization` header.
    pub authorization: &'a [&'a [u8]],
    /// The value of each `Cookie` header.
    pub cookies: &'a [&'a [u8]],
    /// The ticket, where the request has one.
    pub ticket: Option<&'a str>,
}

/// The one credential of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Credential<'a> {
    None,
    Header(&'a str),
    Cookie(&'a str),
    Ticket(&'a str),
}

/// Why the credentials of a request cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// More than one credential. Which of them counts would be a guess.
    #[error("the request brings more than one credential")]
    Several,
    /// An `Authorization` header that is not `Bearer` with one token.
    #[error("the authorization header is not a bearer token")]
    NotBearer,
}

impl CredentialsError {
    /// The stable machine code of the error, for logs and metrics.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Several => "credentials_several",
            Self::NotBearer => "credentials_not_bearer",
        }
    }
}

impl<'a> Credentials<'a> {
    /// Finds the one credential. A cookie counts when it has this name, and with an empty name none does.
    pub(crate) fn one(self, cookie_name: &str) -> Result<Credential<'a>, CredentialsError> {
        let mut found = Credential::None;
        let mut take = |credential| {
            if found != Credential::None {
                return Err(CredentialsError::Several);
            }
            found = credential;
            Ok(())
        };
        for value in self.authorization {
            take(Credential::Header(bearer(value).ok_or(CredentialsError::NotBearer)?))?;
        }
        for value in cookies_named(self.cookies, cookie_name) {
            take(Credential::Cookie(value))?;
        }
        if let Some(ticket) = self.ticket {
            take(Credential::Ticket(ticket))?;
        }
        Ok(found)
    }
}

/// `Bearer`, spaces, a token (RFC 6750, section 2.1; the scheme in any case by RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.trim_ascii().split_once(' ')?;
    let token = token.trim_ascii_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The values of all cookies of this name (RFC 6265, section 4.2.1). Names are exact. What is no text becomes an empty
/// token, which is refused.
fn cookies_named<'a>(headers: &'a [&'a [u8]], name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.iter().flat_map(|header| header.split(|byte| *byte == b';'));
    let named = pairs.filter_map(move |pair| {
        let middle = pair.iter().position(|byte| *byte == b'=')?;
        let (found, value) = (pair[..middle].trim_ascii(), pair[middle + 1..].trim_ascii());
        (!name.is_empty() && found == name.as_bytes()).then_some(value)
    });
    named.map(|value| std::str::from_utf8(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use CredentialsError::{NotBearer, Several};

    use super::*;

    #[test]
    fn only_one_bearer_token_is_an_authorization() {
        let cases = [
            ("Bearer a.b.c", Ok(Credential::Header("a.b.c"))),
            ("bearer a.b.c", Ok(Credential::Header("a.b.c"))),
            ("BEARER   a.b.c ", Ok(Credential::Header("a.b.c"))),
            ("Bearer a.b.c, Bearer d.e.f", Ok(Credential::Header("a.b.c, Bearer d.e.f"))),
            ("", Err(NotBearer)),
            ("Bearer", Err(NotBearer)),
            ("Bearer ", Err(NotBearer)),
            ("Basic YTpi", Err(NotBearer)),
            ("a.b.c", Err(NotBearer)),
            ("Bearera.b.c d", Err(NotBearer)),
        ];
        for (value, expected) in cases {
            let authorization: &[&[u8]] = &[value.as_bytes()];
            let credentials = Credentials { authorization, ..Credentials::default() };
            assert_eq!(credentials.one("session"), expected, "{value}");
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_exact_name() {
        let cases: [(&[u8], Result<Credential<'_>, CredentialsError>); 9] = [
            (b"session=a.b.c", Ok(Credential::Cookie("a.b.c"))),
            (b"theme=dark; session = a.b.c ;x", Ok(Credential::Cookie("a.b.c"))),
            (b"theme=\xff; session=a.b.c", Ok(Credential::Cookie("a.b.c"))),
            (b"session=\xff", Ok(Credential::Cookie(""))),
            (b"session=a=b", Ok(Credential::Cookie("a=b"))),
            (b"Session=a.b.c", Ok(Credential::None)),
            (b"xsession=a.b.c", Ok(Credential::None)),
            (b"session", Ok(Credential::None)),
            (b"session=a; session=b", Err(Several)),
        ];
        for (value, expected) in cases {
            let credentials = Credentials { cookies: &[value], ..Credentials::default() };
            assert_eq!(credentials.one("session"), expected, "{}", value.escape_ascii());
            assert_eq!(credentials.one(""), Ok(Credential::None), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn which_of_several_credentials_counts_is_not_guessed() {
        let bearer: &[u8] = b"Bearer a.b.c";
        let cookie: &[u8] = b"session=a.b.c";
        let cases = [
            Credentials { authorization: &[bearer, bearer], ..Credentials::default() },
            Credentials { authorization: &[bearer], cookies: &[cookie], ticket: None },
            Credentials { authorization: &[bearer], cookies: &[], ticket: Some("t") },
            Credentials { authorization: &[], cookies: &[cookie], ticket: Some("t") },
            Credentials { authorization: &[], cookies: &[cookie, cookie], ticket: None },
        ];
        for credentials in cases {
            assert_eq!(credentials.one("session"), Err(Several));
        }
        assert_eq!(Credentials::default().one("session"), Ok(Credential::None));
        let ticket = Credentials { ticket: Some("t"), ..Credentials::default() };
        assert_eq!(ticket.one("session"), Ok(Credential::Ticket("t")));
    }
}
