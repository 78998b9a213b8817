//! Reading query strings: every parameter has a meaning, a form and an error.

use std::str::FromStr;

use actix_web::HttpRequest;
use actix_web::web::Query;

use super::error::ApiError;

/// The parameters of a request, decoded, in their order.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads them all.
    ///
    /// # Errors
    /// When the query string is no form, or names a parameter that the route does not know: a misspelt filter
    /// must not look like an answer to the question that was meant.
    pub fn of(request: &HttpRequest, known: &[&str]) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_query(request.query_string())
            .map_err(|_| ApiError::bad_request("invalid_query", "The query string cannot be read."))?;
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some(_) => Err(ApiError::bad_request(
                "unknown_parameter",
                format!("Only these parameters are known here: {}.", known.join(", ")),
            )),
            None => Ok(Self(pairs)),
        }
    }

    /// All of them, as pairs of name and value.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The last value of a parameter; an empty one counts as none.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs()
            .filter(|(given, value)| *given == name && !value.is_empty())
            .last()
            .map(|(_, value)| value)
    }

    /// The values of a parameter that may be repeated, and whose values may be joined by commas.
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lists = self.pairs().filter(move |(given, _)| *given == name).map(|(_, list)| list);
        lists.flat_map(|list| list.split(',')).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The same, in another type.
    ///
    /// # Errors
    /// When the value has not the form that `expected` describes.
    pub fn value<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, ApiError> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request("invalid_parameter", format!("{name} must be {expected}."))
                })
            })
            .transpose()
    }

    /// `limit`: how many answers the client wants on one page.
    ///
    /// # Errors
    /// When it is no number from 1 to `most`.
    pub fn limit(&self, default: usize, most: usize) -> Result<usize, ApiError> {
        let expected = format!("a number from 1 to {most}");
        match self.value("limit", &expected)? {
            None => Ok(default.min(most)),
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            Some(_) => Err(ApiError::bad_request("invalid_parameter", format!("limit must be {expected}."))),
        }
    }
}
