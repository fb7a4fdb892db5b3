//! Types that the text of an object is read as.

use crate::Value;

/// A type that the text of an object is read as. Reading is compiled where the type is defined:
/// compiled in every crate that reads, it made up half of some of them.
pub trait Readable: Sized + Send + Sync + 'static {
    fn from_text(text: &[u8]) -> serde_json::Result<Self>;
}

/// Makes types readable by what serde derives for them.
#[macro_export]
macro_rules! readable {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::readable::Readable for $type {
            #[inline(never)]
            fn from_text(text: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(text)
            }
        }
    )+};
}

impl Readable for Value {
    fn from_text(text: &[u8]) -> serde_json::Result<Self> {
        Self::from_text(text)
    }
}
