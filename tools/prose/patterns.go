package main

import "regexp"

// A pattern is English that reads as if it were translated.
type pattern struct {
	name    string
	match   *regexp.Regexp
	instead string
	except  *regexp.Regexp // matches of match that are fine
}

// participle matches the participles that follow a causative has.
const participle = `(?:\w{2,}ed|told|sent|made|run|read|written|begun|set)`

// patterns are matched in passages whose lines are joined by blanks.
var patterns = []pattern{
	{name: "clause as subject", instead: "put the noun first: callers that wait, unowned permits",
		match: regexp.MustCompile(`(?:^|[.!?:] +)(?:Who|Whoever|What) [^.?,:]* [^.?,:]*\.(?: |$)`)},
	{name: "causative", instead: "use the verb: schedules a probe, calls o.Observe",
		match: regexp.MustCompile(`\b(?:has|have|had|having) (?:` +
			`(?:the|its|their|all|each|every) \w+ ` + participle +
			`|[a-z]\w* (?:called|told|probed|renewed|asked|begun))\b`),
		except: regexp.MustCompile(` (?:been|not|already|never|just|also|only|once|ever|` +
			`always|since|now|yet|all) \w+$`)},
	{name: "hidden number", instead: "name the number: wait microseconds, n permits",
		match: regexp.MustCompile(`(?i)\b(?:so (?:many|much)(?:,|\.| (?:us|ms|ns|seconds|minutes|hours|` +
			`times|permits|bytes|calls|as|a) )|(?:for|after|in|within) so long\b|` +
			`as many as that\b|by as much\b)`)},
	{name: "distant pronoun", instead: "repeat the noun",
		match: regexp.MustCompile(`(?i)\b(?:that one|(?:is|are|were) such|(?:is|are) those|one of those)` +
			`(?:[,.;:)]| (?:that|which|with) )`)},
	{name: "nobody", instead: "name the subject: no caller, another Client, all waiters",
		match: regexp.MustCompile(`(?i)\b(?:nobody|somebody|everybody|anybody|(?:of|to|from|by|for) others|` +
			`others (?:may|have|are|do|can|use|hold|take|go|wait|want))\b`)},
	{name: "German order", instead: "write what an English speaker would: also, skips, consecutive, expires",
		match: regexp.MustCompile(`(?i)(?:\b(?:is none of [^.,]*'s|(?:do|does|did|doing) without|` +
			`is over of|one (?:behind|after) the other|` +
			`(?:comes?|goes?|heals?|ends?) (?:back )?by (?:itself|themselves))\b|` +
			`, too(?:[,.;:)]|$))`)},
	{name: "private word", instead: "use the field's word: idempotency key, waiting for Redis, abandoned, " +
		"result, cleanup, successor, sum, cache, network, is notified",
		match: regexp.MustCompile(`(?i)\b(?:latch(?:es)?|parked|deserted|verdicts?|janitors?|heirs?|tally|` +
			`shelf|shelves|weather|(?:is|are|was|were|be) told)\b`)},
}

// narration is matched at the beginning of comments inside functions.
var narration = pattern{name: "narration", instead: "say why, or nothing",
	match: regexp.MustCompile(`^(?:Loop|Iterate|Increment|Decrement|Now we|First we|Then we|Next we)\b`)}

// participleName is the finding for a variable or field whose name leaves open what it is the participle of.
var participleName = pattern{name: "participle as name",
	instead: "name what it is of: lastReplyAt, unbookedPermits, limiterChanged",
	match:   regexp.MustCompile(`^(?:gave|heard|known|own|changed)$`)}
