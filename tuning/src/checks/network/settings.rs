//! Reading `/proc/sys/net`.

use crate::check::{Found, Look};
use crate::host::Reading;

/// The text of `net.core.somaxconn`; what a check says where there is none.
pub(super) fn text(look: Look<'_>, name: &str, want: &str) -> Result<String, Found> {
    match look.host.read(format!("/proc/sys/{}", name.replace('.', "/"))) {
        Reading::Text(text) => Ok(text),
        reading => {
            let absent = format!("neither this kernel nor this network namespace has {name}; a container has few");
            Err(Found::without(&reading, &absent, want))
        }
    }
}

/// Its number.
pub(super) fn number(look: Look<'_>, name: &str, want: &str) -> Result<u64, Found> {
    let text = text(look, name, want)?;
    text.parse().map_err(|_| no_number(name, &text, want))
}

/// The numbers of one that has `N`, as `net.ipv4.tcp_rmem` has three.
pub(super) fn numbers<const N: usize>(look: Look<'_>, name: &str, want: &str) -> Result<[u64; N], Found> {
    let text = text(look, name, want)?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| no_number(name, &text, want))
}

fn no_number(name: &str, text: &str, want: &str) -> Found {
    Found::unread(format!("{name} is {text:?}"), want)
}

/// A check's outcome, however it came to it.
pub(super) fn settled(outcome: Result<Found, Found>) -> Found {
    outcome.unwrap_or_else(|found| found)
}
