// Package rules reads limits from a file, which says which calls are limited, by what, and by how much. It
// takes the place of annotations on endpoints, and can change while the program runs.
//
//	rules:
//	  - name: search
//	    match: {route: GET /search, user: true}
//	    by: user
//	    limits:
//	      - rate: 100/1m
//
// [Parse] reads a file and reports every mistake in it with its line. [New] makes its limiters, in memory
// or on Redis, and [Rules.Allow] asks those that match a call. [Rules.Reload] and [Rules.Watch] replace the
// rules; an unchanged limit keeps its state. httplimit.NewRules and the interceptors of grpclimit take a
// [Rules].
//
// # Which rule wins
//
// One rule applies to a call, besides all rules with "also: true" that match it. That one rule has the most
// specific route, by the precedence of http.ServeMux, wherever it stands in the file. Among rules with the
// same route it is the first whose conditions hold. If none holds, the next more general route counts. A
// rule that is exempt has no limits, and also frees the call from the limits of "also".
//
// The limits of all these rules are asked in the order of the file. They all allow the call, or nothing is
// kept. Rules never wait, so they cannot name leakybucket.Queue and tokenbucket.Smooth, which make callers
// wait. The table of all fields is in docs/rules.md.
package rules
