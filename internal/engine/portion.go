package engine

import (
	"strconv"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A portion is how a queue shares its limit with other processes while callers stand in line. Each
// request then says for how many permits callers wait here, and how many were granted here in the last
// interval. Redis adds the others (scripts/parts/portion.lua): who has more than follows from the
// numbers of those who wait leaves what returns to the others for a moment, and then takes what
// they have not.
//
// While nobody stands in line, and for a wire.PerClient limit, none of this is sent.
type portion struct {
	interval      time.Duration // as Redis told last; 0 not known
	lastUsed      time.Time     // when somebody was refused or served last
	countsUntil   time.Time     // the line counts until then: two intervals after somebody was refused
	takings       []taking      // in the last interval, from the oldest on
	takingsSum    int64         // of those
	peaks         [2]int64      // most permits that were waited for, in this interval and the one before
	intervalBegan time.Time     // when this one began
	left          int64         // permits that were left to others; 0 if none are
	leftSince     time.Time     // since when
	lastLeft      time.Time     // when any were left to them last
}

// leftFor returns how long permits are left to other processes before they are taken after all: longer
// than a distant process takes to ask for them, and at most a twentieth of an interval, which is what a
// process that has died leaves unused. It is that of acquire.lua.
func (p *portion) leftFor() time.Duration { return min(40*time.Millisecond, p.interval/20) }

// A taking is permits that a request was granted.
type taking struct {
	at      time.Time
	permits int64
}

// mostTakings is how many of them are told apart. Of more, two neighbours become one.
const mostTakings = 256

// mostWaited bounds the permits that callers wait for, as far as Redis is told.
const mostWaited = 1 << 50

// judged notes what has become of a request that was sent at a time.
func (p *portion) noteBatch(outcome batchOutcome, reply acquireReply, sent time.Time) {
	p.noteGranted(outcome.toWaiters, sent)
	if first := outcome.refused; first.waiter != nil {
		left := int64(0)
		if first.again {
			left = max(0, reply.left)
		}
		p.noteRefusal(wire.Milliseconds(reply.interval), wire.Microseconds(first.wait), left, sent)
	}
}

// refused notes that somebody stands in line until permits are due, and how many were left to others.
func (p *portion) noteRefusal(interval, due time.Duration, left int64, now time.Time) {
	switch {
	case interval > 0:
		p.interval = interval
	case p.interval == 0:
		p.interval = due // no longer than that, and the next reply tells
	}
	p.countsUntil, p.lastUsed = now.Add(2*p.interval), now
	if p.left == 0 || left == 0 || now.Sub(p.leftSince) >= p.leftFor() {
		p.left, p.leftSince = left, now
	}
	if p.left = min(p.left, left); left > 0 {
		p.lastLeft = now
	}
}

// look returns when to ask again for what was left to others, or sooner for what comes back of
// what was granted here.
func (p *portion) nextLook() time.Time {
	at := p.leftSince.Add(p.leftFor())
	if len(p.takings) > 0 {
		if comesBack := p.takings[0].at.Add(p.interval + time.Millisecond); comesBack.Before(at) {
			return comesBack
		}
	}
	return at
}

// rest returns for how long those who were served from the line may yet come again, 0 if none does.
func (p *portion) lingerFor(now time.Time) time.Duration {
	const longest = time.Second
	return min(p.countsUntil.Sub(now), p.lastUsed.Add(longest).Sub(now))
}

// shared reports whether others have callers in line as well, as far as Redis has told.
func (p *portion) shared(now time.Time) bool { return now.Sub(p.lastLeft) < p.interval }

// took notes what a request was granted for callers who may wait. What others take at once, by Allow, is not
// held against those in line.
func (p *portion) noteGranted(permits int64, now time.Time) {
	if permits <= 0 || !p.countsUntil.After(now) {
		return
	}
	if len(p.takings) == mostTakings {
		p.merge()
	}
	p.lastUsed, p.left = now, 0
	p.takings = append(p.takings, taking{now, permits})
	p.takingsSum += permits
}

// merge makes one of each two neighbours, as late as the later one.
func (p *portion) merge() {
	half := p.takings[:0]
	for i := 0; i+1 < len(p.takings); i += 2 {
		half = append(half, taking{p.takings[i+1].at, p.takings[i].permits + p.takings[i+1].permits})
	}
	p.takings = half
}

// text returns what a request says while callers wait for so many permits; nil if it need not say
// anything.
func (p *portion) text(waited int64, now time.Time) any {
	if !p.countsUntil.After(now) {
		return nil
	}
	for len(p.takings) > 0 && now.Sub(p.takings[0].at) >= p.interval {
		p.takingsSum -= p.takings[0].permits
		p.takings = p.takings[1:]
	}
	if since := now.Sub(p.intervalBegan); since >= p.interval {
		p.peaks[1] = p.peaks[0]
		if since >= 2*p.interval {
			p.peaks[1] = 0
		}
		p.peaks[0], p.intervalBegan = 0, now
	}
	// Callers that were just served come again one by one: they have waited all the same.
	p.peaks[0] = max(p.peaks[0], min(waited, mostWaited))
	text := strconv.AppendInt(nil, max(p.peaks[0], p.peaks[1]), 10)
	text = strconv.AppendInt(append(text, ' '), max(p.takingsSum, 0), 10)
	text = append(text, ' ')
	if p.left > 0 && now.Sub(p.leftSince) >= p.leftFor() {
		return strconv.AppendInt(text, p.left, 10)
	}
	return append(text, '0')
}
