package request

// The positions of the arguments of acquire.lua and release.lua in ARGV. Other
// scripts, except settle.lua, have argType, argNow and argChannel there as well, and the
// Runner sets argResent in all scripts that may be sent again. The headers of the
// scripts describe the remaining ones.
const (
	argType      = 1
	argSession   = 2
	argNumber    = 3
	argPermits   = 4
	argRecords   = 5
	argNow       = 6
	argResent    = 7
	argNumbers   = 8
	argHealed    = 9 // of all scripts that ask for heal.lua
	argGivenRate = 10
	argChannel   = 11
	argLease     = 12
	argBooked    = 12 // of book.lua
	argAfter     = 12 // of release.lua
	argKept      = 13 // of release.lua
	argReserved  = 14 // of release.lua
	argPortion   = 14 // of acquire.lua, as below
	argRuns      = 15
	argMembers   = 15 // of all.lua
)

// The positions of the arguments of settle.lua that are not those of acquire.lua.
const (
	argHealedSettles = 5
	argSettled       = 9 // the first of the nine arguments of each limiter
	settleArgsOfEach = 9
)

// arguments are ARGV. Target.runOn fills in the first one, the type, because a
// retry may have another type.
type arguments []any

// argumentsOf returns ARGV with the arguments after the type.
func argumentsOf(rest ...any) arguments {
	return append(make(arguments, argType, argType+len(rest)), rest...)
}

// put sets ARGV[i], and leaves skipped ones before it empty.
func (args *arguments) put(i int, v any) {
	for len(*args) < i {
		*args = append(*args, "")
	}
	(*args)[i-1] = v
}

// set sets ARGV[i], which exists.
func (args arguments) set(i int, v any) { args[i-1] = v }

// trimmed returns the arguments without empty ones at the end, which scripts treat as missing.
func (args arguments) trimmed() arguments {
	for args[len(args)-1] == "" {
		args = args[:len(args)-1]
	}
	return args
}

// flag returns yes as scripts expect it.
func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}
