-- The names a script can see, made from the full libraries and the functions of the host.
local host = ...
local select, unpack = select, unpack
local raw = { error = error, type = type, next = next, pcall = pcall, setmetatable = setmetatable }
local scan, is_stopped, limit = host.scan, host.is_stopped, host.limit

local function unsupported(name)
  return function()
    raw.error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 2)
  end
end

local function sealed(library)
  return raw.setmetatable({}, {
    __index = library,
    __newindex = function() raw.error("libraries cannot be changed", 2) end,
    __metatable = false,
  })
end

local function pack(...) return select("#", ...), { ... } end

-- Results pass by the side: the stack has no room to spare behind a protected call.
local function protected(f, ...)
  local given, arguments = pack(...)
  local count, results
  local ok, problem = raw.pcall(function() count, results = pack(f(unpack(arguments, 1, given))) end)
  if is_stopped() then raw.error("too many instructions", 0) end
  if ok then return true, unpack(results, 1, count) end
  return false, problem
end

-- The handler runs after the failed call has ended: inside of it, nothing would count its instructions.
local function handled(handler, ok, ...)
  if ok then return ok, ... end
  return false, handler(...)
end

local function scanning(f)
  return function(...) scan() return f(...) end
end

local function bounded(f)
  return function(s, ...)
    if raw.type(s) == "string" and #s > limit then raw.error("string is too long", 2) end
    return f(s, ...)
  end
end

local strings = {
  find = host.find, match = host.match, gmatch = host.gmatch, gfind = host.gmatch,
  char = string.char, len = string.len,
  dump = unsupported("string.dump"), gsub = unsupported("string.gsub"), rep = unsupported("string.rep"),
}
for _, name in raw.next, { "byte", "format", "lower", "reverse", "sub", "upper" } do
  strings[name] = bounded(string[name])
end
getmetatable("").__index = strings

local tables = {}
for name, f in raw.next, table do tables[name] = scanning(f) end

local maths = {}
for name, f in raw.next, math do maths[name] = f end
maths.randomseed = unsupported("math.randomseed")

local base = {
  assert = assert, error = error, ipairs = ipairs, select = select, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
  next = scanning(raw.next),
  pcall = protected,
  xpcall = function(f, handler) return handled(handler, protected(f)) end,
  print = function() end,
  string = sealed(strings), table = sealed(tables), math = sealed(maths),
  os = sealed({ time = host.time, date = host.date }),
  package = sealed({ loadlib = unsupported("package.loadlib") }),
}
function base.pairs(t)
  if raw.type(t) ~= "table" then raw.error("bad argument #1 to 'pairs' (table expected, got " .. raw.type(t) .. ")", 2) end
  return base.next, t, nil
end
for _, name in raw.next, {
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal",
  "rawget", "rawset", "setfenv", "setmetatable", "module", "newproxy",
} do
  base[name] = unsupported(name)
end

local modules = { kube = sealed(host.kube), string = base.string, table = base.table, math = base.math, os = base.os }
function base.require(name)
  local found = modules[name]
  if found == nil then raw.error("module " .. tostring(name) .. " not found", 2) end
  return found
end
return { __index = base }
