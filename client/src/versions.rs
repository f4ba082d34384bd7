//! Which version of an API is used.

use std::collections::BTreeMap;

use kafka_protocol::messages::ApiKey;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use super::CallError;

/// What the target has, and what was pinned.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions {
    /// Lowest and highest by API.
    target: BTreeMap<i16, (i16, i16)>,
    pinned: BTreeMap<i16, i16>,
}

impl Versions {
    /// By the target's own word.
    pub(super) fn new(target: &[ApiVersion], pinned: &BTreeMap<i16, i16>) -> Versions {
        let target = target.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        Versions { target, pinned: pinned.clone() }
    }

    /// The highest version that both sides have and that is no higher than `most`, or the pinned one.
    pub(super) fn of(&self, api: ApiKey, most: i16) -> Result<i16, CallError> {
        let no = |why: String| Err(CallError::NoVersion(format!("{api:?}: {why}")));
        let own = api.valid_versions();
        let Some(&(low, high)) = self.target.get(&(api as i16)) else {
            return no("the target does not have this API".into());
        };
        if let Some(&pinned) = self.pinned.get(&(api as i16)) {
            if pinned < low.max(own.min) || pinned > high.min(own.max).min(most) {
                return no(format!(
                    "version {pinned} is pinned, the target has {low} to {high}, this client {} to {}",
                    own.min,
                    own.max.min(most)
                ));
            }
            return Ok(pinned);
        }
        let version = high.min(own.max).min(most);
        if version < low.max(own.min) {
            return no(format!(
                "the target has versions {low} to {high}, this client {} to {}",
                own.min,
                own.max.min(most)
            ));
        }
        Ok(version)
    }

    /// Whether the target has the API at all.
    pub(super) fn has(&self, api: ApiKey) -> bool {
        self.target.contains_key(&(api as i16))
    }

    /// `Produce 3-13, Fetch 4-18, ...`: what the target says.
    pub(super) fn describe(&self) -> String {
        let name = |key: i16| ApiKey::try_from(key).map_or_else(|()| format!("API {key}"), |key| format!("{key:?}"));
        let apis: Vec<String> =
            self.target.iter().map(|(key, (low, high))| format!("{} {low}-{high}", name(*key))).collect();
        apis.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(low: i16, high: i16, pinned: Option<i16>) -> Versions {
        let api = ApiVersion::default().with_api_key(12).with_min_version(low).with_max_version(high);
        Versions::new(&[api], &pinned.map(|version| (12, version)).into_iter().collect())
    }

    #[test]
    fn the_highest_that_both_have_is_used_unless_one_is_pinned() {
        let of = |low, high, pinned| versions(low, high, pinned).of(ApiKey::Heartbeat, i16::MAX);
        assert_eq!(of(0, 99, None).expect("shared"), ApiKey::Heartbeat.valid_versions().max);
        assert_eq!(of(0, 2, None).expect("shared"), 2);
        assert_eq!(of(0, 4, Some(1)).expect("pinned"), 1);
        for error in [of(90, 99, None), of(2, 4, Some(1)), of(0, 2, Some(3)), of(0, 99, Some(50))] {
            assert!(error.expect_err("no version").to_string().contains("Heartbeat"), "it names the API");
        }
        let missing = versions(0, 4, None).of(ApiKey::Produce, i16::MAX).expect_err("not there");
        assert!(missing.to_string().starts_with("Produce: "), "{missing}");
        assert_eq!(versions(0, 4, None).of(ApiKey::Heartbeat, 3).expect("below the bound"), 3);
    }
}
