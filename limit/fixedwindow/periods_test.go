package fixedwindow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// of returns the periods of a calendar. The anchor is a time in its zone, or empty.
func of(t *testing.T, zone string, unit Unit, anchor string) *periods {
	t.Helper()
	c := Calendar{Rate: 1, Unit: unit, Location: redistest.Must(time.LoadLocation(zone))(t)}
	if anchor != "" {
		c.Anchor = redistest.Must(time.ParseInLocation("2006-01-02 15:04", anchor, c.Location))(t)
	}
	return c.periods()
}

func TestPeriods(t *testing.T) {
	for _, tt := range []struct {
		zone     string
		unit     Unit
		anchor   string
		at       string // UTC, as the others
		from, to string
	}{
		{"UTC", Day, "", "2026-01-15 23:59", "2026-01-15 00:00", "2026-01-16 00:00"},
		{"UTC", Day, "", "2026-01-16 00:00", "2026-01-16 00:00", "2026-01-17 00:00"},
		{"UTC", Week, "", "2026-03-01 23:59", "2026-02-23 00:00", "2026-03-02 00:00"},
		{"UTC", Week, "2031-05-01 08:00", "2026-03-05 07:59", "2026-02-26 08:00", "2026-03-05 08:00"},
		{"UTC", Week, "2031-05-01 08:00", "2026-03-05 08:00", "2026-03-05 08:00", "2026-03-12 08:00"},
		{"UTC", Month, "", "2026-12-31 23:59", "2026-12-01 00:00", "2027-01-01 00:00"},
		{"UTC", Month, "2026-01-15 00:00", "2026-03-14 23:59", "2026-02-15 00:00", "2026-03-15 00:00"},
		{"UTC", Month, "2026-01-31 06:00", "2026-02-28 06:00", "2026-02-28 06:00", "2026-03-31 06:00"},
		{"UTC", Month, "2026-01-31 06:00", "2028-02-29 05:59", "2028-01-31 06:00", "2028-02-29 06:00"},
		{"UTC", Month, "2026-01-31 06:00", "2026-04-30 07:00", "2026-04-30 06:00", "2026-05-31 06:00"},
		{"UTC", Year, "", "2026-06-01 00:00", "2026-01-01 00:00", "2027-01-01 00:00"},
		{"UTC", Year, "2024-02-29 00:00", "2026-03-01 00:00", "2026-02-28 00:00", "2027-02-28 00:00"},
		{"UTC", Year, "2024-02-29 00:00", "2028-02-28 12:00", "2027-02-28 00:00", "2028-02-29 00:00"},

		// Days of 23 and of 25 hours, and their months.
		{"Europe/Berlin", Day, "", "2026-03-29 12:00", "2026-03-28 23:00", "2026-03-29 22:00"},
		{"Europe/Berlin", Day, "", "2026-10-25 12:00", "2026-10-24 22:00", "2026-10-25 23:00"},
		{"Europe/Berlin", Month, "", "2026-03-31 21:59", "2026-02-28 23:00", "2026-03-31 22:00"},
		{"America/New_York", Day, "", "2026-03-08 12:00", "2026-03-08 05:00", "2026-03-09 04:00"},
		{"America/New_York", Day, "", "2026-11-01 12:00", "2026-11-01 04:00", "2026-11-02 05:00"},
		{"America/New_York", Week, "", "2026-11-01 12:00", "2026-10-26 04:00", "2026-11-02 05:00"},
		// 02:30, which clocks skip, then show twice.
		{"Europe/Berlin", Day, "2026-01-01 02:30", "2026-03-29 12:00",
			"2026-03-29 01:00", "2026-03-30 00:30"},
		{"Europe/Berlin", Day, "2026-01-01 02:30", "2026-10-25 01:30",
			"2026-10-25 00:30", "2026-10-26 01:30"},
		// Midnight skipped, shown twice, and a minute after which it is the day before again.
		{"Africa/Cairo", Day, "", "2024-04-26 12:00", "2024-04-25 22:00", "2024-04-26 21:00"},
		{"America/Sao_Paulo", Day, "", "2018-11-04 12:00", "2018-11-04 03:00", "2018-11-05 02:00"},
		{"America/Sao_Paulo", Day, "", "2018-02-18 02:30", "2018-02-17 02:00", "2018-02-18 03:00"},
		{"America/Havana", Day, "", "2024-11-03 04:30", "2024-11-03 04:00", "2024-11-04 05:00"},
		{"America/St_Johns", Day, "", "2010-11-07 03:00", "2010-11-07 02:30", "2010-11-08 03:30"},
		// A whole day skipped, 2011-12-30: the day before ends when the day after begins.
		{"Pacific/Apia", Day, "", "2011-12-30 09:59", "2011-12-29 10:00", "2011-12-30 10:00"},
		{"Pacific/Apia", Day, "", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00"},
		{"Pacific/Apia", Month, "2011-10-30 12:00", "2011-12-30 10:00",
			"2011-12-30 10:00", "2012-01-29 22:00"},
		// The last day of a leap year for which a zone has no table, only a rule (golang/go#81583).
		{"Europe/Berlin", Day, "", "2040-12-31 12:00", "2040-12-30 23:00", "2040-12-31 23:00"},
	} {
		const layout = "2006-01-02 15:04"
		at := redistest.Must(time.Parse(layout, tt.at))(t)
		p := of(t, tt.zone, tt.unit, tt.anchor).at(at.UnixMicro())
		utc := func(us int64) string { return time.UnixMicro(us).UTC().Format(layout) }
		if got, want := utc(p.from)+" "+utc(p.to), tt.from+" "+tt.to; got != want {
			t.Errorf("%s, unit %d, %q at %s: %s, want %s", tt.zone, tt.unit, tt.anchor, tt.at, got, want)
		}
	}
}

// Periods follow each other without a gap, whichever is looked up first.
func TestPeriodsTileTime(t *testing.T) {
	random := rand.New(rand.NewPCG(45, 4))
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Africa/Cairo", "America/Sao_Paulo",
		"America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca",
		"Pacific/Kwajalein", "Asia/Manila", "Antarctica/Troll",
	}
	for range redistest.Rounds(t, 2000) {
		zone := zones[random.IntN(len(zones))]
		unit := Unit(1 + random.IntN(4))
		anchor := ""
		if random.IntN(4) > 0 {
			minutes := random.IntN(60 * 365 * 24 * 60) // from 1990 to 2049
			anchor = time.Date(1990, 1, 1, 0, minutes, 0, 0, time.UTC).Format("2006-01-02 15:04")
		}
		fresh := func(us int64) period { return *of(t, zone, unit, anchor).at(us) }
		at := random.Int64N(4e15) - 2e15 // 1906 to 2033
		if random.IntN(10) == 0 {
			at *= 500 // far beyond all tables
		}
		p := fresh(at)
		if next := fresh(p.to); p.from > at || at >= p.to || p.to >= p.next || fresh(p.from) != p ||
			fresh(p.to-1) != p || next.from != p.to || next.to != p.next ||
			time.Duration(p.to-p.from)*time.Microsecond > lengths[unit]+26*time.Hour {
			t.Fatalf("%s, unit %d, %q at %d: %v, then %v", zone, unit, anchor, at, p, next)
		}
	}
}
