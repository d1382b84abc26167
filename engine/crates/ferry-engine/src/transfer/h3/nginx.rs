//! A server that ends a connection because too much is on its way (ADR 0038, decision 9).

use http::HeaderMap;
use http::header::SERVER;

/// nginx before 1.27.5 takes a connection with more than 10,000 unacknowledged frames for an attack ("quic flood detected"), and ends it
/// in the middle of an answer. Each datagram of an answer has one; the rest are for everything else.
pub const MOST_DATAGRAMS: u64 = 9_500;
/// It counts frames by its configuration since then.
const SINCE: [u32; 3] = [1, 27, 5];

/// True for the head of an answer from such a server, or from an nginx that does not tell its version.
pub fn keeps_few_frames(headers: &HeaderMap) -> bool {
    let Some(server) = headers.get(SERVER).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let Some(version) = server.strip_prefix("nginx") else {
        return false;
    };
    let numbers = version
        .strip_prefix('/')
        .unwrap_or_default()
        .split([' ', '.'])
        .map(str::parse);
    let numbers: Vec<u32> = numbers.map_while(Result::ok).take(SINCE.len()).collect();
    numbers.len() < SINCE.len() || numbers.as_slice() < SINCE.as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_is_known_by_its_name_and_version() {
        let few = |server: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(SERVER, server.parse().unwrap());
            keeps_few_frames(&headers)
        };
        for server in [
            "nginx",
            "nginx/1.26.3",
            "nginx/1.26.3 (Debian)",
            "nginx/1.27.4",
            "nginx/1.25",
        ] {
            assert!(few(server), "{server}");
        }
        for server in [
            "nginx/1.27.5",
            "nginx/1.28.0 (Ubuntu)",
            "nginx/2.0.0",
            "Caddy",
            "h2o/2.3",
            "",
        ] {
            assert!(!few(server), "{server}");
        }
        assert!(!keeps_few_frames(&HeaderMap::new()));
    }
}
