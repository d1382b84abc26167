//! Proxies: which one a URL goes through, by curl's conventions. `http` URLs go to an HTTP proxy in the absolute form (RFC 9112, section 3.2.2), all
//! others through a `tunnel`.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use base64ct::{Base64, Encoding};
use http::header::HeaderValue;
use url::Url;

use crate::error::Error;

/// curl's, for a proxy whose URL has none.
const DEFAULT_PORT: u16 = 1080;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Http,
    /// This machine resolves names.
    Socks5,
    /// The proxy resolves names.
    Socks5h,
}

/// A proxy, and ferry's login there.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub kind: Kind,
    /// `http://HOST:PORT/`, whatever it speaks: only the place is meant.
    pub place: Url,
    pub user: Option<String>,
    pub password: Option<String>,
}

/// Without the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({:?} at {})", self.kind, self.place)
    }
}

impl Proxy {
    /// `[http://|socks5://|socks5h://][USER[:PASSWORD]@]HOST[:PORT]`.
    ///
    /// # Errors
    /// A sentence that does not repeat the text, which may have a password in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" => Kind::Http,
            "socks5" => Kind::Socks5,
            "socks5h" => Kind::Socks5h,
            _ => return Err("a proxy's URL begins with http://, socks5:// or socks5h://".into()),
        };
        // A scheme without a port of its own, so that a port that was typed is seen.
        let typed = Url::parse(&format!("proxy://{rest}")).map_err(|error| format!("no proxy's URL: {error}"))?;
        let host = typed.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or("a proxy's URL needs a host")?;
        if !matches!(typed.path(), "" | "/") || typed.query().is_some() || typed.fragment().is_some() {
            return Err("a proxy's URL ends with its port".into());
        }
        let place = format!("http://{host}:{}/", typed.port().unwrap_or(DEFAULT_PORT));
        let decoded = |text: &str| {
            let text = percent_encoding::percent_decode_str(text).decode_utf8();
            text.map(Cow::into_owned).map_err(|error| error.to_string())
        };
        Ok(Self {
            kind,
            place: Url::parse(&place).map_err(|error| format!("no proxy's URL: {error}"))?,
            user: Some(decoded(typed.username())?).filter(|user| !user.is_empty()),
            password: typed.password().map(decoded).transpose()?,
        })
    }

    /// The value of Proxy-Authorization (RFC 7617).
    #[must_use]
    pub fn authorization(&self) -> Option<HeaderValue> {
        let user = self.user.as_ref()?;
        let credentials = format!("{user}:{}", self.password.as_deref().unwrap_or_default());
        let mut value =
            HeaderValue::try_from(format!("Basic {}", Base64::encode_string(credentials.as_bytes()))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The choice of a proxy for each URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Scheme of URLs, proxy. `*` is any scheme.
    by_scheme: Vec<(&'static str, Proxy)>,
    /// Hosts that are reached without one.
    excluded: String,
}

impl Proxies {
    /// One for all URLs but those to `excluded` hosts, written as in `NO_PROXY`.
    #[must_use]
    pub fn of(proxy: Proxy, excluded: String) -> Self {
        Self {
            by_scheme: vec![("*", proxy)],
            excluded,
        }
    }

    /// The hosts that `NO_PROXY` excludes.
    #[must_use]
    pub fn excluded_by(variable: impl Fn(&str) -> Option<String>) -> String {
        variable("no_proxy")
            .or_else(|| variable("NO_PROXY"))
            .unwrap_or_default()
    }

    /// Reads `http_proxy`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` as curl does: lower case counts first, and `HTTP_PROXY` not
    /// at all, because a CGI program gets it from its client (httpoxy).
    ///
    /// # Errors
    /// Class Usage, naming the variable.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let mut proxies = Self::default();
        for (scheme, names) in [
            ("http", ["http_proxy", ""]),
            ("https", ["https_proxy", "HTTPS_PROXY"]),
            ("sftp", ["sftp_proxy", "SFTP_PROXY"]),
            ("*", ["all_proxy", "ALL_PROXY"]),
        ] {
            let mut names = names.iter().filter(|name| !name.is_empty());
            if let Some((name, text)) = names.find_map(|name| Some((name, variable(name)?)))
                && !text.trim().is_empty()
            {
                let proxy = Proxy::parse(&text).map_err(|why| Error::usage(format!("{name}: {why}")))?;
                proxies.by_scheme.push((scheme, proxy));
            }
        }
        proxies.excluded = Self::excluded_by(variable);
        Ok(proxies)
    }

    /// `--noproxy`, instead of the environment's.
    #[must_use]
    pub fn without(mut self, excluded: String) -> Self {
        self.excluded = excluded;
        self
    }

    /// `None` goes straight to the server.
    #[must_use]
    pub fn for_url(&self, url: &Url) -> Option<&Proxy> {
        let mut found = self.by_scheme.iter();
        let (_, proxy) = found.find(|(scheme, _)| *scheme == "*" || *scheme == url.scheme())?;
        (!is_excluded(&self.excluded, url)).then_some(proxy)
    }
}

/// Names match with all names below them; addresses match as addresses, or by a prefix (`10.0.0.0/8`).
fn is_excluded(list: &str, url: &Url) -> bool {
    if list.trim() == "*" {
        return true;
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let host = host.strip_suffix('.').unwrap_or(host);
    let address: Option<IpAddr> = host.parse().ok();
    let mut entries = list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
    entries.any(|entry| {
        let entry = entry.trim_matches(['[', ']']);
        if let Some(address) = address {
            return in_network(address, entry);
        }
        let name = entry.trim_start_matches('.').trim_end_matches('.');
        let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
        let below = host.strip_suffix(&name).is_some_and(|rest| rest.ends_with('.'));
        !name.is_empty() && (host == name || below)
    })
}

fn in_network(address: IpAddr, entry: &str) -> bool {
    let (network, bits) = entry.split_once('/').unwrap_or((entry, ""));
    let Ok(network) = network.parse::<IpAddr>() else {
        return false;
    };
    let (value, wanted, width) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits()), u128::from(other.to_bits()), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    let bits = if bits.is_empty() {
        Ok(width)
    } else {
        bits.parse::<u32>()
    };
    let Some(rest) = bits.ok().and_then(|bits| width.checked_sub(bits)) else {
        return false;
    };
    value.checked_shr(rest).unwrap_or(0) == wanted.checked_shr(rest).unwrap_or(0)
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
