-- cost_churn.lua: makes and drops a few thousand strings and tables.

local all = {}
for i = 1, 3000 do
  all[i] = { name = string.format('member-%d', i * 7919 % 3001), value = tostring(i / 3) }
end
table.sort(all, function(a, b)
  return a.name < b.name
end)
return #all
