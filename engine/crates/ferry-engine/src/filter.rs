//! The selection of a tree's files for a transfer: by name, as rsync's `--include` and `--exclude` do it, by size and by age.

use std::time::SystemTime;

use globset::{Candidate, Glob, GlobBuilder, GlobSet};

use crate::error::Error;

/// Rules for names, in order, and bounds for files. The default takes everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Vec<Rule>,
    globs: GlobSet,
    /// Smaller files do not take part.
    pub min_size: Option<u64>,
    /// Larger files do not take part.
    pub max_size: Option<u64>,
    /// Files that were modified before this do not take part.
    pub not_before: Option<SystemTime>,
    /// Files that were modified after this do not take part.
    pub not_after: Option<SystemTime>,
}

/// A pattern, and what becomes of the names that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    include: bool,
    directories_only: bool,
    glob: Glob,
}

impl Rule {
    /// A pattern of rsync's: `*`, `?` and `[a-z]` stay within a name, `**` is any number of directories; a slash at the begin anchors it at
    /// the root of the tree, otherwise it matches the end of a path; a slash at the end makes it match directories only.
    ///
    /// # Errors
    /// Class Usage: why it is no pattern.
    pub fn parse(include: bool, pattern: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::usage(format!("{pattern:?}: {why}"));
        let (rest, directories_only) = match pattern.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let (rest, anchored) = match rest.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        if rest.is_empty() {
            return Err(wrong("the pattern names nothing"));
        }
        if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(wrong("a part of the pattern is empty, . or .., which matches nothing"));
        }
        if rest.split('/').any(|part| part != "**" && part.contains("**")) {
            return Err(wrong(
                "** stands for directories, between slashes; within a name write *",
            ));
        }
        if rest.contains("[[:") || rest.contains("[![:") || rest.contains("[^[:") {
            return Err(wrong("classes such as [:alpha:] are not supported; write [a-zA-Z]"));
        }
        let translated = literal_braces(rest);
        let text = if anchored {
            translated
        } else {
            format!("**/{translated}")
        };
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| wrong(&error.kind().to_string()))?;
        Ok(Self {
            include,
            directories_only,
            glob,
        })
    }
}

/// Braces are alternatives to globset and plain characters to rsync.
fn literal_braces(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if !in_class => {
                text.push(character);
                text.extend(characters.next());
            }
            '[' if !in_class => {
                in_class = true;
                text.push(character);
                text.extend(characters.next_if(|next| matches!(next, '!' | '^')));
                // First in a class, it is one of its characters.
                text.extend(characters.next_if_eq(&']'));
            }
            ']' if in_class => {
                in_class = false;
                text.push(character);
            }
            '{' | '}' if !in_class => {
                text.push('\\');
                text.push(character);
            }
            _ => text.push(character),
        }
    }
    text
}

impl Filter {
    /// A filter of these rules: the first rule that matches a name decides, and a name that matches no rule takes part.
    ///
    /// # Errors
    /// Class Usage: the patterns together are too large.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Error> {
        let globs = GlobSet::new(rules.iter().map(|rule| &rule.glob))
            .map_err(|error| Error::usage(format!("--include and --exclude: {error}")).with_source(error))?;
        Ok(Self {
            rules,
            globs,
            ..Self::default()
        })
    }

    /// True without any rule or bound, so that everything takes part.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.min_size.is_none()
            && self.max_size.is_none()
            && self.not_before.is_none()
            && self.not_after.is_none()
    }

    /// By the names from the tree's root down. It is asked of directories first: nothing in one that is excluded takes part.
    #[must_use]
    pub fn takes_name<N: AsRef<[u8]>>(&self, names: &[N], directory: bool) -> bool {
        if self.rules.is_empty() || names.is_empty() {
            return true;
        }
        let mut path = Vec::new();
        for name in names {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_ref());
        }
        // In the order of the rules.
        let matched = self.globs.matches_candidate(&Candidate::from_bytes(&path));
        let rules = matched.into_iter().filter_map(|number| self.rules.get(number));
        let mut deciding = rules.filter(|rule| directory || !rule.directories_only);
        deciding.next().is_none_or(|rule| rule.include)
    }

    /// By what is known of a file; what is unknown keeps nothing out.
    #[must_use]
    pub fn takes_file(&self, size: Option<u64>, modified: Option<SystemTime>) -> bool {
        let large_enough = size.zip(self.min_size).is_none_or(|(size, least)| size >= least);
        let small_enough = size.zip(self.max_size).is_none_or(|(size, most)| size <= most);
        let new_enough = modified.zip(self.not_before).is_none_or(|(time, from)| time >= from);
        let old_enough = modified.zip(self.not_after).is_none_or(|(time, to)| time <= to);
        large_enough && small_enough && new_enough && old_enough
    }
}

#[cfg(test)]
mod tests;
