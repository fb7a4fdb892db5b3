//! Objects in other versions of a kind that a webhook converts, for judging managers that wrote in those.
//!
//! Ownership is worked out by functions that cannot wait. They note what they would have to see; the
//! webhook is asked, and they are run again, until they have seen everything.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupVersion;
use parking_lot::Mutex;

use crate::registry::Served;

/// An object in another version: nothing while it has not been asked for.
struct Conversion {
    object: Value,
    api_version: String,
    shown: Option<Result<Value, String>>,
}

/// What is known about the objects of one request.
#[derive(Default)]
pub(crate) struct Conversions {
    known: Mutex<Vec<Conversion>>,
}

impl Conversions {
    /// The object in a version; nothing if that is to be found out first.
    pub(crate) fn find(&self, object: &Value, api_version: &str) -> Option<Result<Value, String>> {
        let mut known = self.known.lock();
        let found =
            known.iter().find(|one| one.api_version == api_version && one.object == *object);
        if let Some(found) = found {
            return found.shown.clone();
        }
        let (object, api_version) = (object.clone(), api_version.to_owned());
        known.push(Conversion { object, api_version, shown: None });
        None
    }

    /// Has everything converted that was asked for in vain. Returns whether there was anything.
    pub(crate) async fn supply(&self, served: &Served) -> bool {
        let due: Vec<(usize, Value, String)> = {
            let known = self.known.lock();
            let due = known.iter().enumerate().filter(|(_, one)| one.shown.is_none());
            due.map(|(at, one)| (at, one.object.clone(), one.api_version.clone())).collect()
        };
        let asked = !due.is_empty();
        for (at, mut object, api_version) in due {
            let version = GroupVersion::parse(&api_version).unwrap_or_default();
            let one = std::slice::from_mut(&mut object);
            let converted = served.convert(one, &version.group, &version.version).await;
            let shown = converted.map(|()| object).map_err(|status| status.message);
            if let Some(one) = self.known.lock().get_mut(at) {
                one.shown = Some(shown);
            }
        }
        asked
    }
}
