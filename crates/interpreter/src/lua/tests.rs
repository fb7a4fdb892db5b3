//! Scripts: what they can see, how values pass through them, and how hostile ones end.

use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::{Value, json};

use proptest::prelude::*;

use super::Limits;
use crate::testing::{NOW, interpreter, members};
use crate::{Interpreter, Operation};

const SMALL: Limits = Limits { fuel: 300_000, memory: 8 << 20 };

fn customization(name: &str, rules: Value) -> ResourceInterpreterCustomization {
    karmada_apimachinery::from_value(json!({
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "x.io/v1", "kind": "Widget"}, "customizations": rules},
    }))
    .unwrap()
}

fn with(rules: Value) -> Interpreter {
    let interpreter = interpreter().with_limits(SMALL);
    interpreter.set_customizations(&[customization("c", rules)]);
    interpreter
}

fn rule(name: &str, script: &str) -> Value {
    json!({ name: { "luaScript": script } })
}

fn widget(body: Value) -> Value {
    let mut object = json!({"apiVersion": "x.io/v1", "kind": "Widget"});
    object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    object
}

/// Evaluates an expression in the sandbox.
fn evaluate(expression: &str) -> Result<Value, String> {
    run(&format!("function ReflectStatus(obj) return {{ v = {expression} }} end"))
}

fn run(script: &str) -> Result<Value, String> {
    let status = with(rule("statusReflection", script)).interpret_status(&widget(json!({})));
    let mut status = status.map_err(|e| e.to_string())?.unwrap();
    Ok(status["v"].take())
}

#[test]
fn scripts_answer_every_question() {
    let interpreter = with(json!({
        "replicaResource": {"luaScript": "
            local kube = require('kube')
            function GetReplicas(obj) return obj.spec.size, kube.accuratePodRequirements(obj.spec.pod) end"},
        "componentResource": {"luaScript": "
            function GetComponents(obj) return {{ name = 'a', replicas = 2 }, { name = 'b', replicas = obj.spec.size }} end"},
        "replicaRevision": {"luaScript": "
            function ReviseReplica(obj, replicas) obj.spec.size = replicas return obj end"},
        "statusReflection": {"luaScript": "function ReflectStatus(obj) return { ready = obj.status.ready } end"},
        "statusAggregation": {"luaScript": "
            function AggregateStatus(obj, items)
                obj.status = { ready = 0 }
                for i = 1, #items do
                    if items[i].status ~= nil then obj.status.ready = obj.status.ready + items[i].status.ready end
                end
                return obj
            end"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(obj) return obj.status.ready == obj.spec.size end"},
        "dependencyInterpretation": {"luaScript": "
            local kube = require('kube')
            function GetDependencies(obj) return kube.getPodDependencies(obj.spec.pod, obj.metadata.namespace) end"},
    }));
    let pod = json!({"spec": {"nodeSelector": {}, "volumes": [{"emptyDir": {}}], "containers": [
        {"resources": {"requests": {"cpu": "1"}, "limits": {}}, "envFrom": [{"secretRef": {"name": "s"}}]}]}});
    let object = widget(json!({
        "metadata": {"namespace": "shop", "generation": 7}, "spec": {"size": 3, "pod": pod}, "status": {"ready": 2}}));

    let replicas = interpreter.interpret_replica(&object).unwrap();
    assert_eq!(replicas.replicas, 3);
    assert_eq!(
        karmada_apimachinery::to_value(replicas.requirements).unwrap(),
        json!({"resourceRequest": {"cpu": "1"}})
    );
    let components = interpreter.interpret_component(&object).unwrap();
    assert_eq!(
        karmada_apimachinery::to_value(components).unwrap(),
        json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3}])
    );
    let mut revised = object.clone();
    revised["spec"]["size"] = json!(9);
    assert_eq!(interpreter.revise_replica(object.clone(), 9).unwrap(), revised);
    assert_eq!(interpreter.interpret_status(&object).unwrap(), Some(json!({"ready": 2})));
    assert!(!interpreter.interpret_health(&object).unwrap());
    let items: Vec<AggregatedStatusItem> =
        members(&[("m1", json!({"ready": 1})), ("m2", Value::Null), ("m3", json!({"ready": 4}))]);
    let aggregated = interpreter.aggregate_status(object.clone(), &items).unwrap();
    assert_eq!(aggregated["status"], json!({"ready": 5}));
    let dependencies = interpreter.interpret_dependency(&object).unwrap();
    assert_eq!(
        karmada_apimachinery::to_value(dependencies).unwrap(),
        json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "s"}])
    );
    assert!(!interpreter.hook_enabled(&object_gvk(&object), Operation::Retain));
}

fn object_gvk(object: &Value) -> karmada_apimachinery::gvk::Gvk {
    karmada_apimachinery::object::ObjectExt::gvk(object)
}

#[test]
fn empty_tables_take_the_form_they_had() {
    let interpreter = with(rule(
        "retention",
        "function Retain(desired, observed)
            desired.spec.b = observed.spec.b
            desired.spec.c = {}
            desired.spec.list[2] = { inner = {} }
            return desired
        end",
    ));
    let desired = widget(json!({"spec": {"a": {}, "list": [{"inner": {}}]}}));
    let observed = widget(json!({"spec": {"b": []}}));
    assert_eq!(
        interpreter.retain(desired, &observed).unwrap(),
        widget(json!({"spec": {"a": {}, "b": [], "list": [{"inner": {}}, {"inner": {}}]}}))
    );
    assert_eq!(
        with(rule("statusReflection", "function ReflectStatus() return {} end"))
            .interpret_status(&widget(json!({})))
            .unwrap(),
        Some(json!({}))
    );
    assert_eq!(
        run("function ReflectStatus() return { v = { a = {}, b = 1 } } end"),
        Ok(json!({"b": 1}))
    );
}

#[test]
fn values_pass_through_as_lua_sees_them() {
    let cases = [
        ("4", json!(4)),
        ("4.5", json!(4.5)),
        ("2^40", json!(1_099_511_627_776_i64)),
        ("tostring(4)", json!("4")),
        ("1 .. ''", json!("1")),
        ("7 % 4", json!(3)),
        ("math.floor(3.7)", json!(3)),
        ("#{1, 2, 3}", json!(3)),
        ("('a,b'):find(',')", json!(2)),
        ("string.match('1h2m', '(%d+)m')", json!("2")),
        (
            "(function() local t = {} for w in ('a b'):gmatch('%a') do t[#t + 1] = w end return t end)()",
            json!(["a", "b"]),
        ),
        ("string.format('%.2f', 1.5)", json!("1.50")),
        (
            "(function() local n = 0 for k, v in pairs({a = 1, b = 2}) do n = n + v end return n end)()",
            json!(3),
        ),
        ("select('#', pcall(error, 'x'))", json!(2)),
        ("unpack({5})", json!(5)),
        ("select('#', unpack({1, nil, 3}, 1, 3))", json!(3)),
        ("('abc'):byte(-1)", json!(99)),
        ("select('#', ('abc'):byte(1, -1))", json!(3)),
        ("table.concat({'a', 'b'}, '-')", json!("a-b")),
        (
            "(function() local t = {3, 1, 2} table.sort(t) table.insert(t, 1, 0) table.remove(t) return t end)()",
            json!([0, 1, 2]),
        ),
        // Example: I22
        ("require('kube').resourceAdd('1', '500m', nil)", json!("1500m")),
        ("require('kube').resourceAdd('1Gi', '1Gi')", json!("2Gi")),
        ("require('kube').getResourceQuantity('500m')", json!(0.5)),
        ("os.time()", json!(1_772_366_400)),
        ("os.date('!%Y-%m-%dT%H:%M:%SZ')", json!(NOW)),
        ("os.date('*t', 0).year", json!(1970)),
        (
            "os.date('%a %A %b %B %d %F %H %I %m %M %p %P %S %y %Y %z %Z %w %% %q', 0)",
            json!(
                "Thu Thursday Jan January 01 1970-01-01 00 12 01 00 AM am 00 70 1970 +0000 UTC 4 % %q"
            ),
        ),
        ("os.date('%x %X %c', 0)", json!("01/01/70 00:00:00 01 Jan 70 00:00 UTC")),
        ("os.time({year = 1970, month = 1, day = 2, hour = 0})", json!(86_400)),
    ];
    for (expression, expected) in cases {
        assert_eq!(evaluate(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn results_that_are_no_json_are_refused() {
    let cases = [
        // Example: I20
        ("(function() local t = {1} return {a = t, b = t} end)()", "recursively nested"),
        ("(function() local t = {} t.t = t return t end)()", "recursively nested"),
        ("{1, nil, 3}", "sparse"),
        ("{1, a = 2}", "mixed"),
        ("print", "cannot encode function"),
        ("0/0", "cannot encode the number"),
        ("{[true] = 1}", "key of type boolean"),
    ];
    for (expression, words) in cases {
        let error = evaluate(expression).unwrap_err();
        assert!(error.contains(words), "{expression}: {error}");
    }
    let deep = "(function() local t = {} for i = 1, 5000 do t = {t} end return t end)()";
    assert!(evaluate(deep).unwrap_err().contains("too deeply"));
}

#[test]
fn wrong_scripts_say_what_is_wrong() {
    let cases = [
        ("function ReflectStatus(", "compile: "),
        ("function Other() end", "not found function ReflectStatus"),
        ("ReflectStatus = 3", "ReflectStatus is not a function: "),
        ("function ReflectStatus() end", "result of ReflectStatus: expected a table, got nil"),
        (
            "function ReflectStatus() return 3 end",
            "result of ReflectStatus: expected a table, got ",
        ),
        (
            "function ReflectStatus(o) return o.a.b end",
            "<string>:1: attempt to index field 'a' (a nil value)",
        ),
        ("error('early')", "<string>:1: early"),
    ];
    for (script, words) in cases {
        let error = run(script).unwrap_err();
        assert!(error.contains(words), "{script}: {error}");
    }
    let health = |script: &str| {
        with(rule("healthInterpretation", script)).interpret_health(&widget(json!({}))).is_err()
    };
    assert!(health("function InterpretHealth() end"));
    assert!(health("function InterpretHealth() return 1 end"));
    assert!(super::Script::new("return (").compile().is_err());
    assert!(super::Script::new("local a = 1").compile().is_ok());
}

#[test]
fn failures_are_told_in_the_words_of_the_original() {
    let trace = |script: &str| {
        let interpreter = with(rule("replicaResource", script));
        interpreter.interpret_replica(&widget(json!({}))).unwrap_err().to_string()
    };
    assert_eq!(
        trace("function GetReplicas(obj)\n  error('no')\nend"),
        "<string>:2: no\nstack traceback:\n\t[G]: in function 'error'\n\t<string>:2: in main chunk\n\t[G]: ?"
    );
    assert_eq!(
        trace("error('early')"),
        "<string>:1: early\nstack traceback:\n\t[G]: in function 'error'\n\t<string>:1: in main chunk\n\t[G]: ?"
    );
}

#[test]
fn the_sandbox_hides_everything_that_reaches_out() {
    for name in ["io", "debug", "coroutine", "channel", "jit"] {
        assert_eq!(evaluate(&format!("{name} == nil")), Ok(json!(true)), "{name}");
    }
    let refused = [
        "collectgarbage",
        "dofile",
        "getfenv",
        "getmetatable",
        "load",
        "loadfile",
        "loadstring",
        "rawequal",
        "rawget",
        "rawset",
        "setfenv",
        "setmetatable",
        "module",
        "newproxy",
        "string.dump",
        "string.gsub",
        "string.rep",
        "package.loadlib",
        "('x').rep",
        "math.randomseed",
    ];
    for name in refused {
        let error = evaluate(&format!("{name}('x', 'y', 'z')")).unwrap_err();
        assert!(error.contains("is not supported in karmada"), "{name}: {error}");
    }
    for name in ["os.execute", "os.getenv", "os.remove", "os.exit", "package.path", "package.cpath"]
    {
        assert_eq!(evaluate(&format!("{name} == nil")), Ok(json!(true)), "{name}");
    }
    for script in [
        "require('io')",
        "(function() string.find = 1 end)()",
        "(function() require('kube').x = 1 end)()",
    ] {
        assert!(evaluate(script).is_err(), "{script}");
    }
}

#[test]
fn nothing_leaks_from_one_call_into_the_next() {
    let script = "
        count = (count or 0) + 1
        function ReflectStatus() leaked = (leaked or 0) + 1 _G.other = (other or 0) + 1
            return { count = count, leaked = leaked, other = other } end";
    let interpreter = with(rule("statusReflection", script));
    for _ in 0..3 {
        assert_eq!(
            interpreter.interpret_status(&widget(json!({}))).unwrap(),
            Some(json!({"count": 1, "leaked": 1, "other": 1}))
        );
    }
}

#[test]
fn hostile_scripts_are_stopped() {
    let bomb = "local s = ('a'):lower() for i = 1, 14 do s = s .. s end";
    let scripts = [
        "while true do end".to_owned(),
        "while true do pcall(function() while true do end end) end".to_owned(),
        "while true do pcall(error, 'x') end".to_owned(),
        "local function f() return pcall(f) end while true do f() end".to_owned(),
        "while true do xpcall(function() while true do end end, function() while true do end end) end".to_owned(),
        "local function f() return f() end f()".to_owned(),
        "local s = 'x' while true do s = s .. s end".to_owned(),
        "local t = {} while true do t[#t + 1] = {} end".to_owned(),
        "local t = {} while true do table.insert(t, 1, 'x') end".to_owned(),
        "local t = {} for i = 1, 40000 do t[i] = i end for i = 1, 40000 do t[i] = nil end while true do next(t) end".to_owned(),
        format!("{bomb} string.find(s, ('a*'):sub(1, 2) .. 'a*a*a*a*a*a*a*a*a*a*b')"),
        format!("{bomb} string.match(s, '.-.-.-.-.-.-.-.-b')"),
        format!("{bomb} for w in s:gmatch('(.-)(.-)(.-)(.-)b') do end"),
        format!("{bomb} while true do local x = s:find('b', 1, true) end"),
        format!("{bomb} while true do local x = s .. 'x' end"),
        "for i = 1, 1e9 do end".to_owned(),
        "table.sort({1, 2, 3}, function() while true do end end)".to_owned(),
    ];
    for script in scripts {
        let error = run(&format!("function ReflectStatus() {script} end")).unwrap_err();
        let stopped = error.contains("too many instructions") || error.contains("too much memory");
        assert!(stopped, "{script}: {error}");
        let error = run(&script).unwrap_err();
        assert!(error.contains("too m"), "{script}: {error}");
    }
    // Runaway recursion ends at Lua's own limits.
    for script in
        ["local function f() f() end f()", "local function f() pcall(f) error('x') end f()"]
    {
        assert!(run(&format!("function ReflectStatus() {script} end")).is_err(), "{script}");
    }
    // The next script finds a working sandbox.
    assert_eq!(evaluate("1 + 1"), Ok(json!(2)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Programs put together from pieces, most of them nonsense: each ends, and leaves a working sandbox.
    #[test]
    fn any_program_ends(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..8), noise in "\\PC{0,20}") {
        let body = pieces.join(" ");
        let _ = run(&format!("local x, s, t = 1, 'aab', {{1, 2, a = {{}}}}\nfunction ReflectStatus(obj) {body} return {{ v = x }} end"));
        let _ = run(&format!("{noise} {body}"));
        prop_assert_eq!(evaluate("1 + 1"), Ok(json!(2)));
    }
}

const PIECES: &[&str] = &[
    "while x do x = x + 1 end",
    "for i = 1, 1e6 do s = s .. 'b' end",
    "for k, v in pairs(t) do t[k] = nil end",
    "for k, v in pairs(t) do t[#t + 1] = v end",
    "repeat t = { t } until false",
    "pcall(function() while true do end end)",
    "xpcall(error, function(e) return e .. e end)",
    "pcall(pcall, pcall, pcall)",
    "s = s:upper():lower():reverse():sub(-2)",
    "x = s:find('(a*)*b', -5)",
    "x = s:match('%f[%w]()%b()%1')",
    "for w in s:gmatch('.-') do x = w end",
    "x = string.format('%5.3s %d %q', s, 3, s)",
    "x = os.date(s, 1e18)",
    "x = os.time({ year = 1e9, month = -5, day = 1e5 })",
    "x = require('kube').resourceAdd(s, 'x')",
    "x = require('kube').accuratePodRequirements({ spec = { containers = t } })",
    "x = require('kube').getPodDependencies(t, x)",
    "t[0 / 0] = 1",
    "t.t = t",
    "x = t",
    "x = unpack(t, 1, 1e8)",
    "x = s:byte(1, -1)",
    "table.sort(t, function() return true end)",
    "table.insert(t, 1e9, x)",
    "x = table.concat(t)",
    "x = math.huge",
    "x = tostring(t) .. tostring(print)",
    "error(t)",
    "error()",
    "setmetatable(t, {})",
    "_G._G = nil string = nil",
    "return ReflectStatus(obj)",
    "x = ReflectStatus",
    "end end end",
];

#[test]
fn large_objects_can_be_walked_and_copied() {
    let script = "
        local function copy(value)
            if type(value) ~= 'table' then return value end
            local out = {}
            for k, v in pairs(value) do out[k] = copy(v) end
            return out
        end
        function ReflectStatus(obj) return copy(obj.spec) end";
    let entries: karmada_apimachinery::Map =
        (0..2000).map(|n| (format!("key-{n}"), json!({"value": n, "list": [n, n]}))).collect();
    let interpreter = interpreter();
    interpreter.set_customizations(&[customization("c", rule("statusReflection", script))]);
    let object = widget(json!({"spec": entries}));
    assert_eq!(interpreter.interpret_status(&object).unwrap(), Some(object["spec"].clone()));
}

#[test]
fn the_first_customization_by_name_wins_and_dependencies_add_up() {
    let health = |verdict: bool| format!("function InterpretHealth() return {verdict} end");
    let needs = |name: &str| {
        format!(
            "function GetDependencies() return {{{{ apiVersion = 'v1', kind = 'Secret', name = '{name}' }}, {{ apiVersion = 'v1', kind = 'Secret', name = 'both' }}}} end"
        )
    };
    let both = |verdict, name: &str| {
        json!({
            "healthInterpretation": {"luaScript": health(verdict)},
            "dependencyInterpretation": {"luaScript": needs(name)},
        })
    };
    let interpreter = interpreter();
    let object = widget(json!({}));
    interpreter.set_customizations(&[
        customization("b", both(false, "z")),
        customization("a", rule("healthInterpretation", &health(true))),
    ]);
    assert!(interpreter.interpret_health(&object).unwrap());
    interpreter.set_customizations(&[
        customization("b", both(false, "z")),
        customization("a", both(true, "y")),
    ]);
    assert!(interpreter.interpret_health(&object).unwrap());
    let names: Vec<_> =
        interpreter.interpret_dependency(&object).unwrap().into_iter().map(|r| r.name).collect();
    assert_eq!(names, ["both", "y", "z"]);
    interpreter.set_customizations(&[]);
    assert!(interpreter.interpret_health(&object).is_err());
}

#[test]
fn customizations_come_before_built_in_knowledge_question_by_question() {
    let mut replacement = customization(
        "c",
        rule("healthInterpretation", "function InterpretHealth() return true end"),
    );
    replacement.spec.target.api_version = "apps/v1".to_owned();
    replacement.spec.target.kind = "Deployment".to_owned();
    let interpreter = interpreter();
    interpreter.set_customizations(&[replacement]);
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 2}});
    assert!(interpreter.interpret_health(&object).unwrap());
    assert_eq!(interpreter.interpret_replica(&object).unwrap().replicas, 2);
    let gvk = object_gvk(&object);
    assert_eq!(
        interpreter.source(&gvk, Operation::InterpretHealth),
        Some(crate::Source::Declarative)
    );
    assert_eq!(interpreter.source(&gvk, Operation::Retain), Some(crate::Source::Native));
}
