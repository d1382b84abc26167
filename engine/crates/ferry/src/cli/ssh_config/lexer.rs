//! The words of a line of `ssh_config`. OpenSSH cuts lines in two ways: one for keywords and `Match`, another one for the values
//! of keywords.

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A line's keyword in lower case, and what follows it. `None` for an empty line and a comment.
pub fn keyword(line: &str) -> Option<(String, &str)> {
    let mut rest = Some(line.trim_end_matches([' ', '\t', '\r', '\n', '\x0c']));
    let mut word = delimited(&mut rest)?;
    if word.is_empty() {
        // White space before it.
        word = delimited(&mut rest)?;
    }
    let value = rest.unwrap_or("").trim_start_matches(SPACE);
    (!word.is_empty() && !word.starts_with('#')).then(|| (word.to_ascii_lowercase(), value))
}

/// The next word, which ends at white space or at one equals sign. A quotation ends the word that it is in; `None` after the last word and for a
/// quotation that does not end.
pub fn delimited(rest: &mut Option<&str>) -> Option<String> {
    let text = (*rest)?;
    let Some(at) = text.find(|c: char| SPACE.contains(&c) || c == '"' || c == '=') else {
        *rest = None;
        return Some(text.to_owned());
    };
    let (word, behind) = text.split_at(at);
    if let Some(quoted) = behind.strip_prefix('"') {
        let Some((inner, behind)) = quoted.split_once('"') else {
            *rest = None;
            return None;
        };
        *rest = Some(behind.trim_start_matches(SPACE));
        return Some(format!("{word}{inner}"));
    }
    let had_equals = behind.starts_with('=');
    let behind = behind.get(1..).unwrap_or_default().trim_start_matches(SPACE);
    *rest = Some(match behind.strip_prefix('=') {
        Some(behind) if !had_equals => behind.trim_start_matches(SPACE),
        _ => behind,
    });
    Some(word.to_owned())
}

/// The words of a value, up to a comment. Quotations may be in the middle of a word, a backslash keeps a quotation mark, a space or itself.
///
/// # Errors
/// When a quotation does not end.
pub fn words(value: &str) -> Result<Vec<String>, ()> {
    let mut found = Vec::new();
    let mut characters = value.chars().peekable();
    while let Some(first) = characters.peek() {
        match first {
            ' ' | '\t' => {
                characters.next();
                continue;
            }
            '#' => break,
            _ => {}
        }
        let mut word = String::new();
        let mut quotation = None;
        while let Some(character) = characters.next() {
            match (character, quotation) {
                ('\\', _) => match characters.peek() {
                    Some(next @ ('"' | '\'' | '\\')) => {
                        word.push(*next);
                        characters.next();
                    }
                    Some(' ') if quotation.is_none() => {
                        word.push(' ');
                        characters.next();
                    }
                    _ => word.push('\\'),
                },
                (' ' | '\t', None) => break,
                ('"' | '\'', None) => quotation = Some(character),
                (closing, Some(opening)) if closing == opening => quotation = None,
                (other, _) => word.push(other),
            }
        }
        if quotation.is_some() {
            return Err(());
        }
        found.push(word);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keywords_end_at_white_space_or_one_equals_sign() {
        for (line, expected) in [
            ("Port 22", Some(("port", "22"))),
            ("  Port=22 ", Some(("port", "22"))),
            ("\tPORT = 22\r\n", Some(("port", "22"))),
            ("Port == 22", Some(("port", "= 22"))),
            ("Port", Some(("port", ""))),
            ("# Port 22", None),
            ("", None),
            ("   ", None),
            ("\x0c", None),
        ] {
            let found = keyword(line);
            assert_eq!(
                found.as_ref().map(|(word, rest)| (word.as_str(), *rest)),
                expected,
                "{line:?}"
            );
        }
    }

    #[test]
    fn values_have_quotations_escapes_and_comments() {
        for (value, expected) in [
            ("a b", vec!["a", "b"]),
            ("\"a b\" 'c d'e", vec!["a b", "c de"]),
            (r#"a\ b \"c \\d \e "f\ g""#, vec!["a b", "\"c", "\\d", "\\e", "f\\ g"]),
            ("a # b", vec!["a"]),
            ("a#b", vec!["a#b"]),
            ("\"\" x", vec!["", "x"]),
        ] {
            assert_eq!(words(value).unwrap(), expected, "{value}");
        }
        assert_eq!(words("'a"), Err(()));
        assert_eq!(words("\"a'"), Err(()));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic_and_every_line_ends(text in any::<String>(), marked in "[ =\"'\\\\#a\t]{0,30}") {
            for text in [&text, &marked] {
                let _ = keyword(text);
                let _ = words(text);
                let mut rest = Some(text.as_str());
                let count = std::iter::from_fn(|| delimited(&mut rest)).count();
                prop_assert!(count <= text.len() + 1);
            }
        }

        #[test]
        fn quoted_words_are_read_as_they_were(written in proptest::collection::vec("[^\"\\\\\n]{0,9}", 0..5)) {
            let value: Vec<_> = written.iter().map(|word| format!("\"{word}\"")).collect();
            prop_assert_eq!(words(&value.join(" ")).unwrap(), written);
        }
    }
}
