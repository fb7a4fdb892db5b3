//! What every function takes and gives, as one table.
//!
//! A row is a name, its arguments and its result. Letters: b bool, i int, u uint, d double, s string,
//! y bytes, t timestamp, r duration, n null, k type, ? anything; L list, M map, O optional of what
//! follows; A, B any type, the same within a row; q quantity, p IP, c CIDR, w URL, v version, f format.
//! An argument with a dot in front is what a method is called on.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::types::{Type, UNBOUNDED};

pub(crate) struct Signature {
    pub(crate) method: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

const TABLE: &str = "
!_ b b
-_ i i
-_ d d
_==_ A A b
_!=_ A A b
_+_ i i i
_+_ u u u
_+_ d d d
_+_ s s s
_+_ y y y
_+_ LA LA LA
_+_ r r r
_+_ t r t
_+_ r t t
_-_ i i i
_-_ u u u
_-_ d d d
_-_ r r r
_-_ t t r
_-_ t r t
_*_ i i i
_*_ u u u
_*_ d d d
_/_ i i i
_/_ u u u
_/_ d d d
_%_ i i i
_%_ u u u
@in A LA b
@in A MAB b
size s i
size y i
size LA i
size MAB i
size .s i
size .y i
size .LA i
size .MAB i
contains .s s b
startsWith .s s b
endsWith .s s b
matches .s s b
matches s s b
int i i
int u i
int d i
int s i
int t i
int r i
uint u u
uint i u
uint d u
uint s u
double d d
double i d
double u d
double s d
bool b b
bool s b
string s s
string b s
string i s
string u s
string d s
string y s
string t s
string r s
string q s
string p s
string c s
bytes y y
bytes s y
timestamp t t
timestamp s t
timestamp i t
duration r r
duration s r
dyn A ?
type A k
getFullYear .t i
getMonth .t i
getDayOfYear .t i
getDayOfMonth .t i
getDate .t i
getDayOfWeek .t i
getHours .t i
getMinutes .t i
getSeconds .t i
getMilliseconds .t i
getFullYear .t s i
getMonth .t s i
getDayOfYear .t s i
getDayOfMonth .t s i
getDate .t s i
getDayOfWeek .t s i
getHours .t s i
getMinutes .t s i
getSeconds .t s i
getMilliseconds .t s i
getHours .r i
getMinutes .r i
getSeconds .r i
getMilliseconds .r i
charAt .s i s
indexOf .s s i
indexOf .s s i i
lastIndexOf .s s i
lastIndexOf .s s i i
indexOf .LA A i
lastIndexOf .LA A i
join .Ls s
join .Ls s s
lowerAscii .s s
upperAscii .s s
replace .s s s s
replace .s s s i s
split .s s Ls
split .s s i Ls
substring .s i s
substring .s i i s
trim .s s
reverse .s s
format .s L? s
strings.quote s s
find .s s s
findAll .s s Ls
findAll .s s i Ls
isSorted .LA b
sum .LA A
min .LA A
max .LA A
url s w
isURL s b
getScheme .w s
getHost .w s
getHostname .w s
getPort .w s
getEscapedPath .w s
getQuery .w MsLs
quantity s q
isQuantity s b
isInteger .q b
asInteger .q i
asApproximateFloat .q d
sign .q i
add .q q q
add .q i q
sub .q q q
sub .q i q
compareTo .q q i
isLessThan .q q b
isGreaterThan .q q b
ip s p
isIP s b
ip.isCanonical s b
family .p i
isUnspecified .p b
isLoopback .p b
isLinkLocalMulticast .p b
isLinkLocalUnicast .p b
isGlobalUnicast .p b
cidr s c
isCIDR s b
containsIP .c s b
containsIP .c p b
containsCIDR .c s b
containsCIDR .c c b
ip .c p
masked .c c
prefixLength .c i
semver s v
semver s b v
isSemver s b
isSemver s b b
major .v i
minor .v i
patch .v i
compareTo .v v i
isLessThan .v v b
isGreaterThan .v v b
format.named s Of
format.dns1123Label f
format.dns1123Subdomain f
format.dns1035Label f
format.qualifiedName f
format.dns1123LabelPrefix f
format.dns1123SubdomainPrefix f
format.dns1035LabelPrefix f
format.labelValue f
format.uri f
format.uuid f
format.byte f
format.date f
format.datetime f
validate .f s OLs
sets.contains LA LA b
sets.equivalent LA LA b
sets.intersects LA LA b
optional.of A OA
optional.ofNonZeroValue A OA
optional.none OA
hasValue .OA b
value .OA A
or .OA OA OA
orValue .OA A A
jsonpatch.escapeKey s s
";

static SIGNATURES: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Signature>> = HashMap::new();
    for row in TABLE.lines().filter(|row| !row.is_empty()) {
        let mut words = row.split(' ');
        let Some(name) = words.next() else { continue };
        let mut types: Vec<(bool, Type)> = words
            .map(|word| {
                let bare = word.trim_start_matches('.');
                (word.starts_with('.'), read(&mut bare.chars()))
            })
            .collect();
        let Some((_, result)) = types.pop() else { continue };
        let method = types.first().is_some_and(|(dotted, _)| *dotted);
        let args = types.into_iter().map(|(_, of)| of).collect();
        table.entry(name).or_default().push(Signature { method, args, result });
    }
    // Numbers of different kinds, and everything with an order, can be compared.
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        let mut pairs: Vec<(Type, Type)> = Vec::new();
        let numbers = [Type::Int, Type::UInt, Type::Double];
        for a in &numbers {
            pairs.extend(numbers.iter().map(|b| (a.clone(), b.clone())));
        }
        let ordered =
            [Type::Bool, Type::string(), Type::Bytes(UNBOUNDED), Type::Timestamp, Type::Duration];
        pairs.extend(ordered.into_iter().map(|of| (of.clone(), of)));
        let rows = pairs.into_iter().map(|(a, b)| Signature {
            method: false,
            args: vec![a, b],
            result: Type::Bool,
        });
        table.insert(name, rows.collect());
    }
    table
});

fn read(letters: &mut std::str::Chars<'_>) -> Type {
    match letters.next().unwrap_or('?') {
        'b' => Type::Bool,
        'i' => Type::Int,
        'u' => Type::UInt,
        'd' => Type::Double,
        's' => Type::string(),
        'y' => Type::Bytes(UNBOUNDED),
        't' => Type::Timestamp,
        'r' => Type::Duration,
        'n' => Type::Null,
        'k' => Type::Kind,
        'L' => Type::list(read(letters)),
        'M' => {
            let key = read(letters);
            Type::map(key, read(letters))
        }
        'O' => Type::Optional(Arc::new(read(letters))),
        'A' => Type::Param(0),
        'B' => Type::Param(1),
        'q' => Type::Opaque("kubernetes.Quantity"),
        'p' => Type::Opaque("net.IP"),
        'c' => Type::Opaque("net.CIDR"),
        'w' => Type::Opaque("kubernetes.URL"),
        'v' => Type::Opaque("kubernetes.Semver"),
        'f' => Type::Opaque("kubernetes.NamedFormat"),
        _ => Type::Dyn,
    }
}

/// The signatures of a function, or nothing if there is no such function.
pub(crate) fn of(name: &str) -> Option<&'static [Signature]> {
    SIGNATURES.get(name).map(Vec::as_slice)
}
