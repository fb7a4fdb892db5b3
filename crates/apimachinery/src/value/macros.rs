//! Values written down as JSON in the source.

use serde::Serialize;

use super::{Value, to_value};

/// Something that a value is made of by [`json!`](crate::json). A tree is taken as it is, everything
/// else is written by serde; which of the two is found by the order in which methods are looked up.
pub struct Made<'t, T: ?Sized>(pub &'t T);

pub trait Taken {
    fn made(&self) -> Value;
}

impl Taken for Made<'_, Value> {
    fn made(&self) -> Value {
        self.0.clone()
    }
}

impl Taken for Made<'_, &Value> {
    fn made(&self) -> Value {
        (*self.0).clone()
    }
}

pub trait Written {
    fn made(&self) -> Value;
}

impl<T: Serialize + ?Sized> Written for &Made<'_, T> {
    fn made(&self) -> Value {
        to_value(self.0).expect("what stands in a source can be written")
    }
}

/// A [`Value`] written as JSON; names and values may be expressions.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([]) => { $crate::Value::Array($crate::value::List::new()) };
    ({}) => { $crate::Value::Object($crate::Map::new()) };
    ([$($items:tt)+]) => {{
        let mut list = $crate::value::List::new();
        $crate::json_items!(list; $($items)+);
        $crate::Value::Array(list)
    }};
    ({$($fields:tt)+}) => {{
        let mut map = $crate::Map::new();
        $crate::json_fields!(map; [] $($fields)+);
        $crate::Value::Object(map)
    }};
    ($other:expr) => {{
        #[allow(unused_imports, reason = "each of the two is for other values")]
        use $crate::value::{Taken as _, Written as _};
        (&$crate::value::Made(&$other)).made()
    }};
}

/// The items of a list, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! json_items {
    ($list:ident;) => {};
    ($list:ident; null $(, $($rest:tt)*)?) => {
        $list.push($crate::Value::Null);
        $($crate::json_items!($list; $($rest)*);)?
    };
    ($list:ident; [$($items:tt)*] $(, $($rest:tt)*)?) => {
        $list.push($crate::json!([$($items)*]));
        $($crate::json_items!($list; $($rest)*);)?
    };
    ($list:ident; {$($fields:tt)*} $(, $($rest:tt)*)?) => {
        $list.push($crate::json!({$($fields)*}));
        $($crate::json_items!($list; $($rest)*);)?
    };
    ($list:ident; $item:expr $(, $($rest:tt)*)?) => {
        $list.push($crate::json!($item));
        $($crate::json_items!($list; $($rest)*);)?
    };
}

/// The fields of an object, one after the other; the tokens of a name are gathered up to its colon.
#[doc(hidden)]
#[macro_export]
macro_rules! json_fields {
    ($map:ident; []) => {};
    ($map:ident; [$($name:tt)+] : null $(, $($rest:tt)*)?) => {
        $map.insert($($name)+, $crate::Value::Null);
        $($crate::json_fields!($map; [] $($rest)*);)?
    };
    ($map:ident; [$($name:tt)+] : [$($items:tt)*] $(, $($rest:tt)*)?) => {
        $map.insert($($name)+, $crate::json!([$($items)*]));
        $($crate::json_fields!($map; [] $($rest)*);)?
    };
    ($map:ident; [$($name:tt)+] : {$($fields:tt)*} $(, $($rest:tt)*)?) => {
        $map.insert($($name)+, $crate::json!({$($fields)*}));
        $($crate::json_fields!($map; [] $($rest)*);)?
    };
    ($map:ident; [$($name:tt)+] : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($($name)+, $crate::json!($value));
        $($crate::json_fields!($map; [] $($rest)*);)?
    };
    ($map:ident; [$($name:tt)*] $next:tt $($rest:tt)*) => {
        $crate::json_fields!($map; [$($name)* $next] $($rest)*);
    };
}
