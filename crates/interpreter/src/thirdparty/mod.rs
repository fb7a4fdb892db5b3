//! Well-known custom kinds, understood without any configuration: which questions are answered, as one table.

use crate::rules::Rules;

pub(crate) const TABLE: &[Rules] = &[];
