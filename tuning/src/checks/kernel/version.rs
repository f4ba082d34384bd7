//! The kernel's release.

use std::fmt;

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, shown, text};
use crate::fix::Fix;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "kernel",
    area: Area::Kernel,
    why: "io_uring is what the runtime stands on: before 5.8 it lacks what is needed, and until 6.1 much of its work for \
          sockets is handed to threads of the kernel",
    run: |look| settled(kernel(look)),
}];

/// Without what came with it the runtime does not start.
const OLDEST: Version = Version(5, 8);

/// From here on io_uring is at its best for a gateway.
const GOOD: Version = Version(6, 1);

const WANT: &str = ">= 6.1 (5.8 at least, 6.6 or newer is best)";

/// The first two numbers of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) struct Version(pub(in crate::checks) u32, pub(in crate::checks) u32);

impl Version {
    /// Of the running kernel, where it tells.
    pub(in crate::checks) fn of(look: Look<'_>) -> Option<Version> {
        look.host.read(RELEASE).text().and_then(Version::parse)
    }

    /// Of `5.14.0-427.el9.x86_64`.
    fn parse(release: &str) -> Option<Version> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some(Version(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

const RELEASE: &str = "/proc/sys/kernel/osrelease";

fn kernel(look: Look<'_>) -> Result<Found, Found> {
    let release = text(look, RELEASE, "the kernel does not tell its release", WANT)?;
    let Some(version) = Version::parse(&release) else {
        return Err(Found::unread(format!("{RELEASE} holds {}", shown(&release)), WANT));
    };
    let read = format!("Linux {release}");
    let fix = |text: String| vec![Fix::Advice(text)];
    if version < OLDEST {
        let newer = format!("install a kernel of at least {OLDEST}, better {GOOD} or newer");
        return Ok(Found::wrong(Verdict::Blocker, read, WANT, fix(newer)));
    }
    if release.contains("WSL") {
        let elsewhere = "measure on a Linux of its own: the kernel of WSL is cut down and its network is emulated";
        return Ok(Found::wrong(Verdict::Advice, read, WANT, fix(elsewhere.into())));
    }
    if version < GOOD {
        return Ok(Found::wrong(Verdict::Advice, read, WANT, fix(format!("install a kernel of {GOOD} or newer"))));
    }
    Ok(Found::fine(read, WANT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_all_distributions_are_understood() {
        for (release, version) in [
            ("5.14.0-427.el9.x86_64", Version(5, 14)),
            ("6.6.52+", Version(6, 6)),
            ("6.18.44-fc-v857", Version(6, 18)),
            ("5.15.153.1-microsoft-standard-WSL2", Version(5, 15)),
            ("6.1-rc3", Version(6, 1)),
        ] {
            assert_eq!(Version::parse(release), Some(version), "{release}");
        }
        for release in ["", "6", "six.one", "-6.1", "99999999999.1"] {
            assert_eq!(Version::parse(release), None, "{release}");
        }
        assert!(Version(6, 1) < Version(6, 10) && Version(5, 19) < Version(6, 0));
    }
}
