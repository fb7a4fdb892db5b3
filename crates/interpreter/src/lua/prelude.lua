-- The names a script can see, made from the full libraries and the functions of the host.
local host = ...
local select, unpack, table = select, unpack, table
local raw = { error = error, type = type, next = next, pcall = pcall, setmetatable = setmetatable }
local walk, steps, is_stopped, limit = host.walk, host.steps, host.is_stopped, host.limit

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

-- Makes a function of the table library pay for the elements it may touch.
local function per_element(f, factor)
  return function(t, ...)
    if raw.type(t) == "table" then steps(#t * factor) end
    return f(t, ...)
  end
end

local function walking(f)
  return function(...) walk() return f(...) end
end

local function bounded(f)
  return function(s, ...)
    if raw.type(s) == "string" and #s > limit then raw.error("string is too long", 2) end
    return f(s, ...)
  end
end

-- Long lists of values are copied at every call they are passed to, which no instruction shows.
local function check_count(first, last)
  if last - first >= 256 then raw.error("too many results", 3) end
end

local function few(t, first, last)
  first, last = first or 1, last or #t
  check_count(first, last)
  return unpack(t, first, last)
end

local strings = {
  find = host.find, match = host.match, gmatch = host.gmatch, gfind = host.gmatch,
  char = string.char, len = string.len,
  dump = unsupported("string.dump"), gsub = unsupported("string.gsub"), rep = unsupported("string.rep"),
}
for _, name in raw.next, { "format", "lower", "reverse", "sub", "upper" } do
  strings[name] = bounded(string[name])
end
local byte = bounded(string.byte)
function strings.byte(s, first, last)
  if last then check_count(first < 0 and #s + first + 1 or first, last < 0 and #s + last + 1 or last) end
  return byte(s, first, last)
end
getmetatable("").__index = strings

local tables = {
  concat = per_element(table.concat, 1),
  foreach = walking(table.foreach),
  foreachi = per_element(table.foreachi, 1),
  getn = table.getn,
  maxn = walking(table.maxn),
  remove = per_element(table.remove, 1),
  sort = per_element(table.sort, 20),
  insert = function(t, ...)
    -- Adding at the end moves nothing.
    if select("#", ...) > 1 and raw.type(t) == "table" then steps(#t) end
    return table.insert(t, ...)
  end,
}

local maths = {}
for name, f in raw.next, math do maths[name] = f end
maths.randomseed = unsupported("math.randomseed")

local base = {
  assert = assert, error = error, ipairs = ipairs, select = select, tonumber = tonumber,
  tostring = tostring, type = type, unpack = few, _VERSION = _VERSION,
  next = walking(raw.next),
  pcall = protected,
  xpcall = function(f, handler) return handled(handler, protected(f)) end,
  print = function() end,
  string = sealed(strings), table = sealed(tables), math = sealed(maths),
  os = sealed({ time = host.time, date = host.date }),
  package = sealed({ loadlib = unsupported("package.loadlib") }),
}
-- The place in the table is kept here, so that a walk cannot be made to stay where it is costly.
function base.pairs(t)
  if raw.type(t) ~= "table" then raw.error("bad argument #1 to 'pairs' (table expected, got " .. raw.type(t) .. ")", 2) end
  walk()
  local key, is_over
  return function()
    if is_over then return nil end
    local value
    key, value = raw.next(t, key)
    is_over = key == nil
    return key, value
  end, t, nil
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
