//! `.netrc`: logins and passwords by host, in the format of ftp(1) as curl reads it.

/// An entry; `machine` is `None` for `default`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Entry {
    machine: Option<String>,
    login: Option<String>,
    password: Option<String>,
}

/// A file's entries, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Netrc(Vec<Entry>);

/// A word of the file, and whether it is the first of its line.
struct Words<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    line: &'a str,
    number: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.lines().enumerate(),
            line: "",
            number: 0,
        }
    }

    /// # Errors
    /// The number of a line with a quotation that does not end.
    fn next(&mut self) -> Result<Option<String>, usize> {
        while self.line.is_empty() {
            let Some((index, line)) = self.rest.next() else {
                return Ok(None);
            };
            self.number = index + 1;
            self.line = line.trim_ascii();
            if self.line.starts_with('#') {
                self.line = "";
            }
        }
        let (word, rest) = if let Some(quoted) = self.line.strip_prefix('"') {
            unquote(quoted).ok_or(self.number)?
        } else {
            let split = self.line.split_once(|c: char| c.is_ascii_whitespace());
            let (word, rest) = split.unwrap_or((self.line, ""));
            (word.to_owned(), rest)
        };
        self.line = rest.trim_ascii_start();
        Ok(Some(word))
    }

    /// A macro's lines, up to an empty one.
    fn skip_macro(&mut self) {
        self.line = "";
        for (_, line) in self.rest.by_ref() {
            if line.trim_ascii().is_empty() {
                return;
            }
        }
    }
}

/// The text before the closing quotation mark, without escapes, and the text behind it; `None` if the quotation does not end.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((word, text.get(at + 1..)?)),
            '\\' => word.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            other => word.push(other),
        }
    }
    None
}

impl Netrc {
    /// Words that it does not know are skipped, as every reader of this format does.
    ///
    /// # Errors
    /// The number of the line that cannot be read: a value is missing, or a quotation does not end.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut words = Words::new(text);
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(word) = words.next()? {
            let number = words.number;
            if word == "default" {
                entries.push(Entry::default());
                continue;
            }
            if !matches!(word.as_str(), "machine" | "login" | "password" | "account" | "macdef") {
                continue;
            }
            let value = words.next()?.ok_or(number)?;
            match (word.as_str(), entries.last_mut()) {
                ("machine", _) => entries.push(Entry {
                    machine: Some(value),
                    ..Entry::default()
                }),
                ("macdef", _) => words.skip_macro(),
                ("login", Some(entry)) => entry.login = Some(value),
                ("password", Some(entry)) => entry.password = Some(value),
                _ => {}
            }
        }
        Ok(Self(entries))
    }

    /// Login and password of the first entry for the host (and the user, where one is named) that has a password. Without a login it is for any
    /// user, and for one without a name.
    pub fn find<'a>(&'a self, host: &str, user: Option<&'a str>) -> Option<(&'a str, &'a str)> {
        self.0
            .iter()
            .filter(|entry| {
                let machine = entry.machine.as_deref();
                machine.is_none_or(|machine| machine.eq_ignore_ascii_case(host))
            })
            .filter_map(|entry| {
                let login = entry.login.as_deref().or(user).unwrap_or_default();
                Some((login, entry.password.as_deref()?))
            })
            .find(|(login, _)| user.is_none_or(|user| user == *login))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "\
# machine commented login nobody password nothing
machine one.example login anna password a#b
machine ONE.example
    login berta
    password \"two words \\\"and\\\" \\\\ \\t\"
macdef init
machine in.a.macro login x password y

machine half.example login cesar
machine half.example account unused password late login dora
machine open.example password sesame
default login anonymous password guest
";

    #[test]
    fn entries_are_found_by_host_and_user() {
        let netrc = Netrc::parse(FILE).unwrap();
        for (host, user, found) in [
            ("one.example", None, Some(("anna", "a#b"))),
            ("One.Example", Some("berta"), Some(("berta", "two words \"and\" \\ \t"))),
            ("half.example", None, Some(("dora", "late"))),
            ("half.example", Some("cesar"), None),
            ("in.a.macro", None, Some(("anonymous", "guest"))),
            ("commented", None, Some(("anonymous", "guest"))),
            ("one.example", Some("nobody"), None),
            ("open.example", None, Some(("", "sesame"))),
            ("open.example", Some("ali"), Some(("ali", "sesame"))),
        ] {
            assert_eq!(netrc.find(host, user), found, "{host} {user:?}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        for (text, line) in [
            ("machine", 1),
            ("machine a\nlogin", 2),
            ("machine a login b\n\npassword \"open", 3),
            ("machine a password \"x\\", 1),
        ] {
            assert_eq!(Netrc::parse(text), Err(line), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_found(
            entries in proptest::collection::vec(("[a-z.]{1,9}", "\\PC{1,9}", any::<String>()), 1..6),
            separator in "[ \t]{1,3}|\n|\r\n",
        ) {
            let quoted = |text: &str| {
                let mut out = String::from('"');
                for character in text.chars() {
                    match character {
                        '\n' => out.push_str("\\n"),
                        '\r' => out.push_str("\\r"),
                        '"' | '\\' => out.extend(['\\', character]),
                        other => out.push(other),
                    }
                }
                out.push('"');
                out
            };
            let text: String = entries
                .iter()
                .map(|(machine, login, password)| {
                    let words = ["machine", machine, "login", &quoted(login), "password", &quoted(password)];
                    words.join(&separator) + "\n"
                })
                .collect();
            let netrc = Netrc::parse(&text).unwrap();
            for (machine, login, _) in &entries {
                let first = entries.iter().find(|other| &other.0 == machine && &other.1 == login).unwrap();
                prop_assert_eq!(netrc.find(machine, Some(login)), Some((login.as_str(), first.2.as_str())));
            }
        }

        #[test]
        fn no_text_is_a_panic(text in any::<String>()) {
            let _ = Netrc::parse(&text);
        }
    }
}
