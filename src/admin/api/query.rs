//! The query of a request: `name=value` pairs, each checked, and unknown ones refused.

use crate::limits::{API_PAGE_MAX, API_QUERY_BYTES_MAX};

/// A query whose names are known and each there once.
#[derive(Debug)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Takes a query apart.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(query: Option<&str>, names: &[&str]) -> Result<Query, String> {
        let query = query.unwrap_or_default();
        if query.len() > API_QUERY_BYTES_MAX {
            return Err(format!("the query is {} bytes, at most {API_QUERY_BYTES_MAX} are allowed", query.len()));
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            if !names.contains(&name.as_str()) {
                let allowed = if names.is_empty() {
                    "none is allowed".into()
                } else {
                    format!("allowed are {}", names.join(", "))
                };
                return Err(format!("there is no parameter {name:?}: {allowed}"));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("{name} is given twice"));
            }
            pairs.push((name, decoded(value)?));
        }
        Ok(Query(pairs))
    }

    /// A value, where it is given and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given(name).filter(|value| !value.is_empty())
    }

    /// A value that may be empty, where it is given.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// One of these, or the first.
    ///
    /// # Errors
    /// It is another one.
    pub fn choice<'a>(&self, name: &str, choices: &[&'a str]) -> Result<&'a str, String> {
        let Some(value) = self.get(name) else { return Ok(choices[0]) };
        let found = choices.iter().find(|choice| **choice == value);
        found.copied().ok_or_else(|| format!("{name} is {value:?}, allowed are {}", choices.join(", ")))
    }

    /// How many entries of a list are wanted.
    ///
    /// # Errors
    /// It is no number, or out of bounds.
    pub fn limit(&self) -> Result<usize, String> {
        let Some(value) = self.get("limit") else { return Ok(50) };
        let limit = value.parse().ok().filter(|limit| (1..=API_PAGE_MAX).contains(limit));
        limit.ok_or_else(|| format!("limit is {value:?}, allowed is 1 to {API_PAGE_MAX}"))
    }

    /// Where a list goes on, as [`Mark::text`] wrote it.
    ///
    /// # Errors
    /// It is nothing that a list told of.
    pub fn after(&self) -> Result<Option<Mark>, String> {
        let Some(value) = self.get("after") else { return Ok(None) };
        let mark = value.split_once('.').and_then(|(rank, name)| {
            let rank = rank.parse().ok()?;
            Some(Mark { rank, name: name.to_string() })
        });
        mark.map(Some).ok_or_else(|| format!("after is {value:?}, allowed is the next of an earlier answer"))
    }
}

/// The last entry of a page: what it is sorted by, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// What the list is sorted by first, the smallest first.
    pub rank: u64,
    /// What it is sorted by then.
    pub name: String,
}

impl Mark {
    /// As clients carry it.
    pub fn text(&self) -> String {
        format!("{}.{}", self.rank, self.name)
    }
}

/// A page of what passes, in order, and where to go on; with how many pass in all.
pub fn page<'a, T>(
    all: impl Iterator<Item = &'a T>,
    mark: impl Fn(&T) -> Mark,
    after: Option<&Mark>,
    limit: usize,
) -> (Vec<&'a T>, usize, Option<String>) {
    let mut total = 0;
    let mut page: Vec<(Mark, &T)> = Vec::new();
    let mut has_more = false;
    for one in all {
        total += 1;
        let mark = mark(one);
        if after.is_some_and(|after| mark <= *after) {
            continue;
        }
        page.push((mark, one));
        // Twice as many as are wanted are kept, so that a long list costs no sort of the whole.
        if page.len() > 2 * limit {
            page.select_nth_unstable_by(limit, |a, b| a.0.cmp(&b.0));
            page.truncate(limit);
            has_more = true;
        }
    }
    page.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    has_more |= page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| has_more).map(|(mark, _)| mark.text());
    (page.into_iter().map(|(_, one)| one).collect(), total, next)
}

/// Percent-encoded text; a `+` is a space.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || left.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit(), digit());
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(format!("{text:?} is not percent-encoded: two hexadecimal digits follow each %"));
                };
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let refused = |query: &str| Query::parse(Some(query), &["search", "limit"]).unwrap_err();
        assert_eq!(refused("serch=a"), "there is no parameter \"serch\": allowed are search, limit");
        assert_eq!(refused("search=a&search=b"), "search is given twice");
        assert!(refused("search=%zz").contains("two hexadecimal digits"));
        assert!(refused("search=%ff").contains("UTF-8"));
        assert!(refused("search=%").contains("two hexadecimal digits"));
        assert!(refused(&"a".repeat(API_QUERY_BYTES_MAX + 1)).contains("4096 are allowed"));
        assert!(Query::parse(Some("a=1"), &[]).unwrap_err().ends_with("none is allowed"));
        let query = |query: &str| Query::parse(Some(query), &["sort", "limit", "after"]).unwrap();
        for limit in ["0", "501", "-1", "x", "99999999999999999999"] {
            let error = query(&format!("limit={limit}")).limit().unwrap_err();
            assert!(error.contains(limit) && error.ends_with("1 to 500"), "{error}");
        }
        assert!(query("sort=size").choice("sort", &["lag", "name"]).unwrap_err().ends_with("allowed are lag, name"));
        assert!(query("after=x").after().is_err());
    }

    #[test]
    fn values_are_decoded_and_those_that_are_not_given_have_defaults() {
        let query = Query::parse(Some("search=a%2Fb+%C3%BC&limit=&"), &["search", "limit", "sort"]).unwrap();
        assert_eq!(query.get("search"), Some("a/b ü"));
        assert_eq!((query.limit(), query.choice("sort", &["lag", "name"])), (Ok(50), Ok("lag")));
        assert_eq!(query.after(), Ok(None));
        assert!(Query::parse(None, &[]).is_ok());
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat_also_where_ranks_are_equal() {
        let all: Vec<u64> = (0..1_000).rev().collect();
        let mark = |one: &u64| Mark { rank: one % 3, name: format!("{one:04}") };
        let mut expected: Vec<Mark> = all.iter().map(mark).collect();
        expected.sort();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let (rows, total, next) = page(all.iter(), mark, after.as_ref(), 7);
            assert_eq!(total, 1_000);
            assert!(rows.len() == 7 || next.is_none());
            seen.extend(rows.into_iter().map(mark));
            let Some(next) = next else { break };
            let query = Query::parse(Some(&format!("after={next}")), &["after"]).unwrap();
            after = query.after().unwrap();
        }
        assert_eq!(seen, expected);
    }
}
