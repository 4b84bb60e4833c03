// Package rules reads limits from a file that says which calls are limited, by what, and by how much. The
// file replaces annotations on endpoints, and can change while the program runs.
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
// One rule applies to a call, in addition to all matching rules with "also: true": the rule with the most
// specific route, by the precedence of http.ServeMux, wherever it stands in the file. Among rules with the
// same route it is the first whose conditions hold. If none holds, the next more general route counts. An
// exempt rule has no limits, and also frees the call from the limits of "also" rules.
//
// The limits of all these rules are asked in the order of the file. If one refuses, nothing is kept. Rules
// never wait, so they cannot name leakybucket.Queue and tokenbucket.Smooth, which make callers wait.
// docs/rules.md has a table of all fields.
package rules
