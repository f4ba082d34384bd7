//! What is done to the fleet.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::limits::FLEET_PARTITIONS_MAX;
use crate::plan::UsageError;
use crate::quantity;
use crate::result::Parameter;
use crate::scenario::fleet::{self, above_zero, time};

/// Kinds of storms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Members vanish without a word.
    Kill,
    /// Members leave as they should.
    Leave,
    /// One member of each group leaves and comes back, again and again.
    Flap,
    /// The members of each group leave and come back one after the other, as when an application is rolled out.
    Rolling,
    /// Topics gain partitions.
    AddPartitions,
    /// All connections end at once, as when the coordinator is restarted.
    Reconnect,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Kill, "kill"),
    (Kind::Leave, "leave"),
    (Kind::Flap, "flap"),
    (Kind::Rolling, "rolling"),
    (Kind::AddPartitions, "add-partitions"),
    (Kind::Reconnect, "reconnect"),
];

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let known = KINDS.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind);
        let names: Vec<&str> = KINDS.iter().map(|(_, name)| *name).collect();
        known.ok_or_else(|| format!("{text:?} is no storm: {}", names.join(", ")))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name))
    }
}

/// How a member's connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Reset, as when a process is killed with unread data.
    Rst,
    /// Closed, as when a process ends.
    Fin,
    /// Not at all, as when a machine or a network is lost.
    Silent,
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Cut, String> {
        match text {
            "rst" => Ok(Cut::Rst),
            "fin" => Ok(Cut::Fin),
            "silent" => Ok(Cut::Silent),
            other => Err(format!("{other:?} is no end of a connection: rst, fin or silent")),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cut::Rst => "rst",
            Cut::Fin => "fin",
            Cut::Silent => "silent",
        })
    }
}

/// Parameters as flags.
#[derive(Debug, Clone, PartialEq, Args)]
#[group(skip)]
pub struct Flags {
    /// Those of the fleet.
    #[command(flatten)]
    pub fleet: fleet::Flags,
    /// What is done to it, from the start of the measured window on: kill, leave, flap, rolling, add-partitions or
    /// reconnect.
    #[arg(long, value_name = "KIND", default_value = "kill")]
    pub storm: Kind,
    /// With kill and leave: the share of all members per second.
    #[arg(long, value_name = "PERCENT/s", default_value = "1%/s")]
    pub storm_rate: String,
    /// How connections end, with kill and reconnect: rst, fin or silent.
    #[arg(long, value_name = "HOW", default_value = "fin")]
    pub cut: Cut,
    /// After what time a member that is gone comes back, with a new member id unless it is static; never, if so.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub return_after: String,
    /// Between two with flap, add-partitions and reconnect.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub storm_interval: String,
    /// With add-partitions: how many each topic gains each time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gain: u32,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            fleet: fleet::Flags::default(),
            storm: Kind::Kill,
            storm_rate: "1%/s".into(),
            cut: Cut::Fin,
            return_after: "1s".into(),
            storm_interval: "10s".into(),
            gain: 1,
        }
    }
}

/// Parameters, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The fleet.
    pub fleet: fleet::Plan,
    /// What is done to it.
    pub storm: Kind,
    /// Share of all members per second, above 0.
    pub rate: f64,
    /// How connections end.
    pub cut: Cut,
    /// After what time a member comes back, if it does.
    pub return_after: Option<Duration>,
    /// Between two.
    pub interval: Duration,
    /// Partitions that each topic gains each time.
    pub gain: u32,
    flags: Flags,
}

impl Plan {
    /// Checks the flags.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(flags: Flags) -> Result<Plan, UsageError> {
        let refuse = |flag: &'static str, value: &dyn ToString, allowed: &str| {
            Err(UsageError { flag, value: value.to_string(), allowed: allowed.into() })
        };
        let rate = flags.storm_rate.strip_suffix("/s").and_then(|share| quantity::parse_percent(share).ok());
        let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
            return refuse("storm-rate", &flags.storm_rate, "a share per second above 0, such as 1%/s");
        };
        if flags.gain == 0 || flags.gain > FLEET_PARTITIONS_MAX {
            return refuse("gain", &flags.gain, &format!("from 1 to {FLEET_PARTITIONS_MAX}"));
        }
        if flags.storm == Kind::Reconnect && flags.cut == Cut::Silent {
            return refuse("cut", &flags.cut, "rst or fin: silence ends no connection");
        }
        let return_after = match flags.return_after.as_str() {
            "never" => None,
            text => Some(time("return-after", text)?),
        };
        if return_after.is_none() && matches!(flags.storm, Kind::Flap | Kind::Rolling) {
            return refuse("return-after", &"never", "a time: members come back with flap and rolling");
        }
        Ok(Plan {
            fleet: fleet::Plan::new(flags.fleet.clone())?,
            storm: flags.storm,
            rate,
            cut: flags.cut,
            return_after,
            interval: above_zero("storm-interval", &flags.storm_interval)?,
            gain: flags.gain,
            flags,
        })
    }

    /// As a reader would write them.
    pub fn parameters(&self) -> Vec<Parameter> {
        let (flags, default) = (&self.flags, Flags::default());
        let mut parameters = self.fleet.parameters();
        let mut parameter = |name: &str, value: String, default: String| {
            parameters.push(Parameter { name: name.into(), default: value == default, value });
        };
        parameter("storm", flags.storm.to_string(), default.storm.to_string());
        parameter("storm-rate", flags.storm_rate.clone(), default.storm_rate);
        parameter("cut", flags.cut.to_string(), default.cut.to_string());
        parameter("return-after", flags.return_after.clone(), default.return_after);
        parameter("storm-interval", flags.storm_interval.clone(), default.storm_interval);
        parameter("gain", flags.gain.to_string(), default.gain.to_string());
        parameters
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn flags(line: &str) -> Flags {
        let arguments = std::iter::once("rebalance-storm").chain(line.split_whitespace());
        let matches = Flags::augment_args(Command::new("rebalance-storm")).get_matches_from(arguments);
        Flags::from_arg_matches(&matches).expect("flags")
    }

    #[test]
    fn the_defaults_of_the_command_line_are_those_of_the_result() {
        assert_eq!(flags(""), Flags::default());
        let plan = Plan::new(flags("")).expect("defaults can be");
        assert!(plan.parameters().iter().all(|parameter| parameter.default));
        assert_eq!((plan.rate, plan.return_after), (0.01, Some(Duration::from_secs(1))));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_flag() {
        for (line, flag) in [
            ("--storm-rate 1%", "storm-rate"),
            ("--storm-rate 0%/s", "storm-rate"),
            ("--storm reconnect --cut silent", "cut"),
            ("--storm rolling --return-after never", "return-after"),
            ("--storm-interval 0s", "storm-interval"),
            ("--gain 0", "gain"),
            ("--groups 0", "groups"),
        ] {
            assert_eq!(Plan::new(flags(line)).expect_err(line).flag, flag);
        }
    }
}
