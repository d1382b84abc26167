//! The choice of a proxy for a URL, and the URLs of proxies.

use super::*;
use crate::log::host_port;

fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
    let variable = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let proxies = Proxies::from_environment(variable).unwrap();
    let proxy = proxies.for_url(&url.parse().unwrap())?;
    Some(format!("{:?} {}", proxy.kind, host_port(&proxy.place)))
}

#[test]
fn the_environment_means_what_it_means_to_curl() {
    for (variables, url, wanted) in [
        (&[("http_proxy", "p")][..], "http://h/", Some("Http p:1080")),
        (&[("http_proxy", "p:80")], "http://h/", Some("Http p:80")),
        (&[("http_proxy", "p")], "https://h/", None),
        (&[("HTTP_PROXY", "p")], "http://h/", None),
        (&[("HTTPS_PROXY", "p:3128")], "https://h/", Some("Http p:3128")),
        (
            &[("HTTPS_PROXY", "p"), ("https_proxy", "q")],
            "https://h/",
            Some("Http q:1080"),
        ),
        (&[("ALL_PROXY", "socks5h://p")], "sftp://h/", Some("Socks5h p:1080")),
        (
            &[("ALL_PROXY", "socks5://p"), ("http_proxy", "q:1")],
            "http://h/",
            Some("Http q:1"),
        ),
        (
            &[("ALL_PROXY", "socks5://[::1]:9")],
            "https://h/",
            Some("Socks5 [::1]:9"),
        ),
        (&[("ALL_PROXY", "p"), ("NO_PROXY", "h")], "http://h/", None),
        (
            &[("ALL_PROXY", "p"), ("no_proxy", ""), ("NO_PROXY", "h")],
            "http://h/",
            Some("Http p:1080"),
        ),
        (&[("ALL_PROXY", " ")], "http://h/", None),
        (&[], "http://h/", None),
    ] {
        assert_eq!(chosen(variables, url).as_deref(), wanted, "{variables:?} {url}");
    }
}

#[test]
fn hosts_are_excluded_by_name_address_and_network() {
    for (list, host, excluded) in [
        ("*", "a.example", true),
        ("example", "example", true),
        ("example", "a.Example", true),
        (".example", "example", true),
        ("Example.", "a.example.", true),
        ("example", "anexample", false),
        ("b.example", "example", false),
        ("x, example y", "y", true),
        (",, ", "a", false),
        (".", "a", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.30", false),
        ("2.3", "10.1.2.3", false),
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "11.1.2.3", false),
        ("0.0.0.0/0", "11.1.2.3", true),
        ("10.0.0.0/33", "10.0.0.0", false),
        ("10.0.0.0/x", "10.0.0.0", false),
        ("fd00::/8", "[fd12::1]", true),
        ("[::1]", "[::1]", true),
        ("::/0", "10.1.2.3", false),
    ] {
        let url = format!("http://{host}/").parse().unwrap();
        assert_eq!(is_excluded(list, &url), excluded, "{list:?} {host}");
    }
}

#[test]
fn a_proxy_has_a_place_and_perhaps_a_login() {
    let proxy = Proxy::parse("socks5h://me%40x:s3%3Acret@127.0.0.1:9/").unwrap();
    assert_eq!(
        (proxy.user.as_deref(), proxy.password.as_deref()),
        (Some("me@x"), Some("s3:cret"))
    );
    assert!(!format!("{proxy:?}").contains("cret"));
    let value = Proxy::parse("http://Aladdin:open%20sesame@h")
        .unwrap()
        .authorization()
        .unwrap();
    assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(Proxy::parse("h").unwrap().authorization(), None);
    for bad in [
        "",
        "http://",
        "https://h",
        "socks4://h",
        "ftp://h",
        "h:99999",
        "http://me:secret@h/path",
        "h?q",
        "[::1",
    ] {
        let why = Proxy::parse(bad).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }
}
