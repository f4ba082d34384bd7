//! Gateways on both stores that clients have used, and what they report.

use std::collections::BTreeMap;

use crate::common::eventually;
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, consumer_joins};
use crate::common::partition::{create, unknown};
use crate::common::raw::{Raw, Writer, batch};
use crate::common::scrape::{Family, Scrape};

/// All families of all gateways, by name.
pub async fn reported() -> BTreeMap<String, Family> {
    let watched = |options: Options| options.set("admin-listen", "127.0.0.1:0").set("census-interval", "1s");
    let embedded = Gateway::start(watched(Options::new(2).embedded("its logs are asked for")));
    let on_iggy = watched(Options::new(2).on_iggy()).set_of_the_store("admin-listen", "127.0.0.1:0");
    let mut on_iggy = Gateway::start(on_iggy.set("metrics-partition-lag", "true"));
    use_it(&embedded);
    use_it(&on_iggy);
    let mut all = BTreeMap::new();
    for gateway in [&embedded, &on_iggy] {
        eventually("a census has seen the lag", || Scrape::of(gateway).sum("ringgate_lag", &[]) > 0.0).await;
        add(&mut all, Scrape::of(gateway));
    }
    add(&mut all, Scrape::of(on_iggy.server()));
    all
}

/// Records, a group of each kind that has committed and lags, an error.
fn use_it(gateway: &Gateway) {
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "log", 2, &[]);
    for index in 0..2 {
        topic.partition(index).append(&mut raw, batch(Writer::NOBODY, 1, &["a", "b", "c"]));
    }
    topic.partition(0).fetch(&mut raw, 11, 0);
    let member = Member::consumer(&mut raw, "g", &["log"]);
    assert_eq!(member.heartbeat(&mut raw), 0);
    assert_eq!(member.commit(&mut raw, "log", &[(0, 1), (1, 1)]), [0, 0]);
    assert_eq!(raw.call(1, &consumer_joins("k", "member", &["log"])).error_code, 0);
    let refused = unknown("gone").partition(0).produce(&mut raw, 9, Some(batch(Writer::NOBODY, 1, &["a"])));
    assert_eq!(refused.error_code, 3);
}

fn add(all: &mut BTreeMap<String, Family>, scrape: Scrape) {
    for (name, family) in scrape.0 {
        let known = all.entry(name).or_insert_with(|| Family { kind: family.kind.clone(), ..Family::default() });
        known.values.extend(family.values);
        known.histograms.extend(family.histograms);
    }
}
