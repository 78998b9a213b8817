//! Where a search goes on: opaque text that fits one search of one log.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::SearchError;

/// The longest cursor that is looked at, in bytes of text.
const MAX_TEXT_BYTES: usize = 8 * 1024;
const CHECK_BYTES: usize = 8;

/// Writes a place, bound to the search that it belongs to. Its text is the place and a check sum over the
/// search and the place, in the URL-safe alphabet of base64.
pub(crate) fn write(search: &[u8], place: &[u8]) -> String {
    let mut bytes = place.to_vec();
    bytes.extend(check_sum(search, place).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads the place back.
///
/// # Errors
/// [`SearchError::InvalidCursor`] when the text was altered or belongs to another search.
pub(crate) fn read(search: &[u8], text: &str) -> Result<Vec<u8>, SearchError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(SearchError::InvalidCursor);
    }
    let mut place = URL_SAFE_NO_PAD.decode(text).map_err(|_| SearchError::InvalidCursor)?;
    let split = place.len().checked_sub(CHECK_BYTES).ok_or(SearchError::InvalidCursor)?;
    let check = place.split_off(split);
    if check != check_sum(search, &place).to_be_bytes() {
        return Err(SearchError::InvalidCursor);
    }
    Ok(place)
}

/// FNV-1a, 64 bits (RFC 9923): finds mistakes, and protects nothing, since a place is no secret.
fn check_sum(search: &[u8], place: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    search.iter().chain(place).fold(OFFSET_BASIS, step)
}

/// Joins fields so that no two lists of fields give the same bytes.
pub(crate) fn canonical<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend((field.len() as u64).to_be_bytes());
        bytes.extend(field);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_for_its_own_search_only() {
        let text = write(b"search", b"place");
        assert_eq!(read(b"search", &text).unwrap(), b"place");
        assert_eq!(read(b"searcH", &text), Err(SearchError::InvalidCursor));
    }

    #[test]
    fn no_altered_character_is_taken() {
        let text = write(b"search", b"place");
        for position in 0..text.len() {
            for other in [b'A', b'z', b'_', b'!'] {
                let mut altered = text.clone().into_bytes();
                if altered[position] == other {
                    continue;
                }
                altered[position] = other;
                let altered = String::from_utf8(altered).unwrap();
                assert_eq!(read(b"search", &altered), Err(SearchError::InvalidCursor), "{altered}");
            }
        }
        for text in ["", "AAAA", &"A".repeat(MAX_TEXT_BYTES + 4)] {
            assert_eq!(read(b"search", text), Err(SearchError::InvalidCursor));
        }
    }

    #[test]
    fn the_check_sum_is_fnv_1a() {
        // Test vectors of the algorithm's authors.
        assert_eq!(check_sum(b"", b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(check_sum(b"a", b""), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(check_sum(b"foo", b"bar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn fields_are_not_confused() {
        assert_ne!(canonical([b"ab".as_slice(), b"c"]), canonical([b"a".as_slice(), b"bc"]));
    }
}
