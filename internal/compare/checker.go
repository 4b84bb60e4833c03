package compare

import (
	"fmt"
	"strings"
)

// A checker knows what both sides must do, and which faults excuse Java.
type checker struct {
	exact, redisson model
	faults          []fault
}

var standard = checker{exact, redisson, faults}

// goDiffers is what a divergence of Go says.
const goDiffers = "Go does not do what the model says"

// goStep checks a step of Go. It returns nil if Go did what it must.
func (c checker) goStep(o observation) *Divergence {
	want := c.exact.of(o)
	if in := differ(want, o.got); in != 0 {
		return o.diverges(goDiffers, in, want)
	}
	return nil
}

// javaStep checks a step of Java, and returns the faults that were at work.
func (c checker) javaStep(o observation, tainted bool) (*Divergence, []string) {
	known := c.redisson.of(o)
	if in := differ(known, o.got); in != 0 {
		return o.diverges("Java does what is not known of it", in, known), nil
	}
	want := c.exact.of(o)
	names, left := explain(newDeviation(o, want, tainted), c.faults)
	if left != 0 {
		says := fmt.Sprintf("Java does what no fault explains (%s would explain the rest)",
			strings.Join(names, " and "))
		return o.diverges(says, left, want), nil
	}
	return nil, names
}
