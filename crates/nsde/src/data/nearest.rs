//! The name that somebody meant who wrote another.

/// The name that takes the fewest edits to become `wanted`; upper and lower case count as the same,
/// and a name that is empty does not count.
pub fn nearest<'a>(wanted: &str, names: &'a [String]) -> Option<&'a String> {
    let wanted = wanted.to_lowercase();
    names.iter().filter(|name| !name.is_empty()).min_by_key(|name| edits(&wanted, &name.to_lowercase()))
}

/// Edit distance of Levenshtein: insertions, deletions and replacements.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("é", "e", 1),
        ] {
            assert_eq!(edits(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn case_does_not_matter_and_empty_names_are_nobody() {
        let names = ["", "pressure", "temp"].map(String::from);
        assert_eq!(nearest("TMEP", &names), Some(&names[2]));
        assert_eq!(nearest("x", &names[..1]), None);
    }
}
