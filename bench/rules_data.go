package main

import "fmt"

// A rulesData is what the page shows of the rules.
type rulesData struct {
	Versions map[string]string // of all libraries of the page, by the names in modules

	Ours   int        // limiters of this library
	Rivals []string   // in the order of the marks
	Rows   []rulesRow // by rule
	Kept   []int      // by rival
	Broken []string   // what ours break
	Why    map[string]map[string]string
}

// A rulesRow is a rule with a mark for each rival.
type rulesRow struct {
	Rule  string
	Ours  int // how many of ours keep it
	Marks []string
}

// rulesDataOf makes the table. The rules are in the order in which the limiter that has
// most was asked: keys and Redis have some of their own.
func rulesDataOf(found []judgement) *rulesData {
	d := &rulesData{Why: map[string]map[string]string{}}
	var rules []ruling
	for _, j := range found {
		if len(j.Rules) > len(rules) {
			rules = j.Rules
		}
		if j.Ours {
			d.Ours++
		} else {
			d.Rivals, d.Why[j.Name] = append(d.Rivals, j.Name), map[string]string{}
		}
	}
	d.Kept = make([]int, len(d.Rivals))
	for _, r := range rules {
		d.Rows = append(d.Rows, d.row(r.Rule, found))
	}
	return d
}

// row collects the marks of a rule.
func (d *rulesData) row(rule string, found []judgement) rulesRow {
	row := rulesRow{Rule: rule}
	for _, j := range found {
		got := j.of(rule)
		switch {
		case j.Ours && got.Mark == breaks:
			d.Broken = append(d.Broken, fmt.Sprintf("%s: %s: %s", j.Name, rule, got.Why))
		case j.Ours:
			row.Ours++ // also where it does not apply: one in memory has no other handles
		default:
			if got.Mark == keeps {
				d.Kept[len(row.Marks)]++
			}
			if got.Why != "" {
				d.Why[j.Name][rule] = got.Why
			}
			row.Marks = append(row.Marks, got.Mark)
		}
	}
	return row
}

// of returns the ruling of a rule.
func (j *judgement) of(rule string) ruling {
	for _, r := range j.Rules {
		if r.Rule == rule {
			return r
		}
	}
	return ruling{Rule: rule, Mark: untold}
}

// targets returns that ours keep all rules.
func (d *rulesData) targets() []target {
	return []target{most("T16", "rules of package limit that limiters of this library break",
		float64(len(d.Broken)), 0, "")}
}
