//! Network interfaces.

use serde_json::{Map, Value};

use super::facts::Facts;
use crate::host::root::Root;

pub(super) fn tell(facts: &mut Facts) {
    let interfaces = facts.root.names("sys/class/net").map(|names| {
        let interfaces = names.into_iter().map(|name| (name.clone(), interface(&facts.root, &name)));
        Value::from(interfaces.collect::<Map<_, _>>())
    });
    facts.read("network_interfaces", interfaces);
}

/// What there is of one: an interface without a device has neither driver nor speed.
fn interface(root: &Root, name: &str) -> Value {
    let directory = format!("sys/class/net/{name}");
    let mut facts = Map::new();
    for (fact, file) in [("state", "operstate"), ("mtu", "mtu")] {
        if let Ok(text) = root.text(format!("{directory}/{file}")) {
            facts.insert(fact.to_owned(), text.into());
        }
    }
    if let Ok(driver) = std::fs::read_link(root.path(format!("{directory}/device/driver")))
        && let Some(driver) = driver.file_name()
    {
        facts.insert("driver".to_owned(), driver.to_string_lossy().into());
    }
    // -1 where the device does not know, as many virtual ones.
    let speed = root.text(format!("{directory}/speed")).ok().and_then(|text| text.parse::<i64>().ok());
    if let Some(speed) = speed.filter(|speed| *speed > 0) {
        facts.insert("speed_mbit_per_s".to_owned(), speed.into());
    }
    if let Ok(queues) = root.names(format!("{directory}/queues")) {
        let count = |kind| queues.iter().filter(|queue| queue.starts_with(kind)).count();
        facts.insert("receive_queues".to_owned(), count("rx-").into());
        facts.insert("send_queues".to_owned(), count("tx-").into());
    }
    facts.into()
}
