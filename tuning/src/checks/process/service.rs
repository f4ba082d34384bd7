//! The gateway's systemd service.

use std::collections::BTreeMap;

use crate::check::Look;
use crate::checks::network::gateway;
use crate::host::Reading;

/// The service that a gateway which does not run yet would be.
const SERVICE: &str = "ringgate.service";

/// Where units are, the one that counts first.
const UNITS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// A service, as systemd has it.
pub(super) struct Service {
    pub(super) name: String,
    /// By name; of a list that is given several times the last.
    properties: BTreeMap<String, String>,
}

impl Service {
    /// The gateway's: the one that it runs in, or that is installed.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn of(look: Look<'_>) -> Result<Service, String> {
        let running = gateway::pid(look);
        let name = match running {
            Some(pid) => {
                let groups = look.host.read(format!("/proc/{pid}/cgroup"));
                let name = groups.text().and_then(service_of_groups);
                name.ok_or_else(|| format!("the gateway, process {pid}, runs in no systemd service"))?
            }
            None => SERVICE.to_owned(),
        };
        let shown = look.host.command_once(&["systemctl", "show", &name]);
        let loaded =
            shown.text().map(properties).filter(|all| all.get("LoadState").is_some_and(|state| state == "loaded"));
        let properties = loaded.or_else(|| installed(look, &name));
        match properties {
            Some(properties) => Ok(Service { name, properties }),
            None if running.is_some() => Err(format!("neither systemctl nor a unit file tells what {name} is")),
            None => Err(format!("no gateway runs on port {}, and no {name} is installed", look.plan.port)),
        }
    }

    /// That of a gateway which does not run yet.
    pub(super) fn planned(look: Look<'_>) -> Option<Service> {
        Service::of(look).ok().filter(|_| gateway::pid(look).is_none())
    }

    /// A property that is set; what systemd calls unset counts as that.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str).filter(|value| !value.is_empty() && *value != "[not set]")
    }
}

/// The service's name in `/proc/PID/cgroup`: the last part of the path, if it is one.
fn service_of_groups(text: &str) -> Option<String> {
    let path = text
        .lines()
        .find_map(|line| line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|all| all.1)))?;
    let last = path.trim().rsplit('/').next()?;
    last.ends_with(".service").then(|| last.to_owned())
}

/// Lines of `Name=value`.
fn properties(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// What the unit's file and the files beside it (`ringgate.service.d/*.conf`) say.
fn installed(look: Look<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let file = UNITS.iter().find_map(|directory| match look.host.read(format!("{directory}/{name}")) {
        Reading::Text(text) => Some(text),
        _ => None,
    })?;
    let mut all = of_section(&file);
    for directory in UNITS.iter().rev() {
        let directory = format!("{directory}/{name}.d");
        for file in look.host.list(&directory).unwrap_or_default().iter().filter(|file| file.ends_with(".conf")) {
            if let Reading::Text(text) = look.host.read(format!("{directory}/{file}")) {
                all.extend(of_section(&text));
            }
        }
    }
    Some(all)
}

/// The lines of a unit file's `[Service]`.
fn of_section(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "[Service]").skip(1);
    let lines: Vec<&str> =
        lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with(['#', ';'])).collect();
    properties(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_the_last_part_of_the_control_groups_path() {
        let name = |text: &str| service_of_groups(text);
        assert_eq!(name("0::/system.slice/ringgate.service\n").as_deref(), Some("ringgate.service"));
        let first = "12:pids:/x\n1:name=systemd:/system.slice/gw.service";
        assert_eq!(name(first).as_deref(), Some("gw.service"));
        assert_eq!(name("0::/system.slice/docker-0123.scope"), None);
        assert_eq!(name("0::/user.slice/user-1000.slice/user@1000.service/app.slice/shell.scope"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn of_a_unit_file_the_service_counts_and_comments_do_not() {
        let text =
            "[Unit]\nAfter=a\n[Service]\n# LimitNOFILE=1\nLimitNOFILE=10\nLimitNOFILE = 20\n[Install]\nWantedBy=b";
        let all = of_section(text);
        assert_eq!(all.get("LimitNOFILE").map(String::as_str), Some("20"));
        assert_eq!((all.len(), all.get("After")), (1, None));
    }
}
