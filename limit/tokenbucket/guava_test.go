package tokenbucket

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A Smooth does what Guava did on random timelines, recorded by testdata/guava/Timeline.java:
//
//	mvn dependency:copy -Dartifact=com.google.guava:guava:33.4.8-jre -DoutputDirectory=target
//	mvn dependency:copy -Dartifact=com.google.guava:failureaccess:1.0.3 -DoutputDirectory=target
//	javac -cp 'target/*' -d target testdata/guava/Timeline.java
//	java -cp 'target:target/*' com.google.common.util.concurrent.Timeline > testdata/guava/timelines.txt
func TestSmoothDecidesAsGuava(t *testing.T) {
	file := redistest.Must(os.Open("testdata/guava/timelines.txt"))(t)
	defer func() { _ = file.Close() }()
	var p player
	lines := 0
	for text := bufio.NewScanner(file); text.Scan(); lines++ {
		if err := p.play(text.Text()); err != nil {
			t.Fatalf("line %d: %s: %v", lines+1, text.Text(), err)
		}
	}
	if lines < 2000 {
		t.Errorf("%d lines", lines)
	}
}

// A player replays the lines.
type player struct {
	flow   flow
	ticket ticket
	now    int64
}

func (p *player) play(line string) error {
	var rate, warmUp float64
	var n, timeout, granted, slept int64
	word, rest, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "limiter":
		_, err = fmt.Sscan(rest, &rate, &warmUp)
		p.flow, p.ticket, p.now = newFlow(rate, warmUp, 1), ticket{}, 0
		p.flow.at(&p.ticket, 0)
	case "sleep":
		_, err = fmt.Sscan(rest, &n)
		p.now += n
	case "acquire":
		if _, err = fmt.Sscan(rest, &n, &slept); err == nil {
			err = p.reserve(n, slept)
		}
	case "try":
		if _, err = fmt.Sscan(rest, &n, &timeout, &granted, &slept); err != nil {
			return err
		}
		p.flow.at(&p.ticket, p.now)
		if wait := p.ticket.next - p.now; wait > timeout != (granted == 0) {
			return fmt.Errorf("the wait is %d", wait)
		} else if wait <= timeout {
			err = p.reserve(n, slept)
		}
	default:
		err = fmt.Errorf("the word %q", word)
	}
	return err
}

func (p *player) reserve(n, slept int64) error {
	wait := p.flow.reserve(&p.ticket, p.now, n)
	p.now += wait
	if wait != slept {
		return fmt.Errorf("waits %d", wait)
	}
	return nil
}
