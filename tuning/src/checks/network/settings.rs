//! Reading and setting `/proc/sys/net`.

use crate::check::{Found, Look};
use crate::checks::settings::shown;
use crate::fix::{Fix, Knob};
use crate::host::Reading;

pub(super) use crate::checks::settings::{settled, sysctl as number, sysctl_path};

/// The text of `net.ipv4.tcp_congestion_control`, which may be none; what a check says where nobody knows.
pub(super) fn text(look: Look<'_>, name: &str, want: &str) -> Result<String, Found> {
    match look.host.read(sysctl_path(name)) {
        Reading::Text(text) => Ok(text),
        reading => Err(Found::without(&reading, &format!("this kernel, or this container, has no {name}"), want)),
    }
}

/// The numbers of one that has `N`, as `net.ipv4.tcp_rmem` has three.
pub(super) fn numbers<const N: usize>(look: Look<'_>, name: &str, want: &str) -> Result<[u64; N], Found> {
    let text = text(look, name, want)?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| Found::unread(format!("{name} holds {}", shown(&text)), want))
}

/// What sets it. A container has these settings for itself, but as a rule only who starts it may set them.
pub(super) fn set(look: Look<'_>, name: &str, value: impl ToString) -> Vec<Fix> {
    let value = value.to_string();
    let mut fixes = vec![Fix::Knob(Knob::sysctl(name, &value))];
    if look.host.is_container() {
        fixes.push(Fix::Advice(format!("docker run --sysctl '{name}={value}' (Kubernetes: securityContext.sysctls)")));
    }
    fixes
}
