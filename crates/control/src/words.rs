//! A command as a person would type it: where its arguments begin and end can be seen.

/// The words of a command, in quotes as a shell takes them where they hold anything but plain characters.
pub fn command_in_words(words: &[String]) -> String {
    let is_plain = |word: &String| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "._-/+@%:=,~^".contains(c));
    let quoted = |word: &String| if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn where_a_word_ends_can_be_seen() {
        let words = ["sh", "-c", "it's a \"test\"", ""].map(str::to_owned);
        assert_eq!(super::command_in_words(&words), r#"sh -c 'it'\''s a "test"' ''"#);
    }
}
