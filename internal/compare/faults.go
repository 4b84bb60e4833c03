package compare

// A fault of Redisson says for which parts of a deviation it accounts.
type fault struct {
	name     string // the number in the README
	explains func(d deviation) parts
	harmless bool
}

// A harmless fault leaves a state in which Go still keeps the limit, so Java
// may show it in shared runs.
const (
	harmful  = false
	harmless = true
)

// faults are those that a sequence can meet. The others need a lost reply (B4),
// clocks that differ (B5), thousands of records (B16), waiting (B17, B18, B20,
// B21, B24) or a cluster (B23); they have specs of their own. aftermath is not
// a fault but what follows when one has been at work.
var faults = []fault{
	{"B1", releaseLeavesRecords, harmful},
	{"B2", valueWithoutRecords, harmful},
	{"B3", readingWrites, harmless},
	{"B6", readingCreates, harmless},
	{"B6", leftoversCount, harmless},
	{"B7", keepAliveStays, harmless},
	{"B7", refusalAddsKeepAlive, harmless},
	{"B8", otherPairStays, harmless},
	{"B8", keysStayBehind, harmless},
	{"B9", ownPairKeepsItsRate, harmless},
	{"B10", leftoversExpire, harmless},
	{"B11", debtForgotten, harmless},
	{"B11", debtShown, harmless},
	{"B12", permitsBelowOne, harmful},
	{"B12", recordsOfNothing, harmful},
	{"B13", permitsBeyondRecord, harmful},
	{"B14", rateBeyondDoubles, harmful},
	{"B15", halfHash, harmful},
	{"B19", recordsWithoutValue, harmful},
	{"B22", rateOfNothing, harmless},
	{"no config", configOfNothing, harmless},
	{"aftermath", aftermath, harmful},
}

// javaMay reports whether Java may do a step of a shared run. A step that harms
// the limit for everybody, as the README says, is left to Go.
func javaMay(s Step, st state) bool {
	switch s.Op {
	case Release: // B1
		return false
	case TryAcquire: // B12, B13
		return s.Permits >= 1 && s.Permits <= mostPerRecord
	case SetRate, UpdateRate, TrySetRate: // B14, B11
		taken := sum(st.pairs[s.Limit.Type].records)
		return s.Limit.Rate <= mostRate && (!s.KeepState || taken <= s.Limit.Rate)
	}
	return true
}

// explain returns the faults that account for a deviation, and the parts for
// which none of them does.
func explain(d deviation, among []fault) (names []string, left parts) {
	all := differ(d.want.withoutOwnTTL(), d.got.withoutOwnTTL())
	left = all
	for _, f := range among {
		if in := f.explains(d) & all; in != 0 {
			names = append(names, f.name)
			left &^= in
		}
	}
	return names, left
}
