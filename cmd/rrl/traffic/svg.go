package traffic

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// The measures of the picture, in px.
const (
	pictureWidth = 900.0
	plotLeft     = 196.0
	plotWidth    = 684.0
	headHeight   = 64.0
	stripHeight  = 46.0
	stripGap     = 18.0
	footHeight   = 30.0
)

var (
	//go:embed style.css
	style string // the colours, for light and dark pages

	//go:embed legend.svg
	legend string // explains them
)

// SVG returns the comparison as a picture: a strip for each algorithm, with requests and grants. The same
// comparison always gives the same picture.
func (c *Comparison) SVG() string {
	height := headHeight + float64(len(c.Strips))*(stripHeight+stripGap) + footHeight
	title := c.title()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img"`,
		pictureWidth, height)
	fmt.Fprintf(&b, ` aria-label="%s">`+"\n", html.EscapeString(c.summary()))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s</style>\n", html.EscapeString(title), style)
	fmt.Fprintf(&b, `<rect class="page" width="%g" height="%g" rx="8"/>`+"\n", pictureWidth, height)
	fmt.Fprintf(&b, `<text class="title" x="16" y="27">%s</text>`+"\n", html.EscapeString(title))
	b.WriteString(legend)
	bottom := height - footHeight
	c.axis(&b, bottom)
	highest := c.highest(1)
	for i, s := range c.Strips {
		c.strip(&b, s, headHeight+float64(i)*(stripHeight+stripGap), highest)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// title describes the traffic. The name of a file may contain terminal codes, or characters that XML forbids;
// then it is quoted.
func (c *Comparison) title() string {
	return fmt.Sprintf("%s: %s, %d permits per %s", words.Name(c.Traffic.Name),
		words.Count(int64(len(c.Traffic.Requests)), "request"), c.Plan.Rate, span(c.Plan.Per))
}

// summary says in words what the picture shows.
func (c *Comparison) summary() string {
	parts := make([]string, len(c.Strips))
	for i, s := range c.Strips {
		parts[i] = fmt.Sprintf("%s: %d admitted, %s", s.Name, s.Admitted, c.worstText(s))
	}
	return c.title() + ". " + strings.Join(parts, "; ")
}

// worstText returns the permits of the worst interval, in words.
func (c *Comparison) worstText(s *Strip) string {
	return fmt.Sprintf("at most %d in %s", s.Worst, span(c.Plan.Per))
}

func span(d time.Duration) string { return words.Span(d.Milliseconds()) }

// axis draws times, with a line for each interval unless there are too many.
func (c *Comparison) axis(b *strings.Builder, bottom float64) {
	const most = 12
	step := c.Plan.Per
	for c.Traffic.Length/step > most {
		step *= 2
	}
	for at := time.Duration(0); at <= c.Traffic.Length; at += step {
		x := c.x(at)
		fmt.Fprintf(b, `<path class="rule" d="M%s %gV%g"/>`, px(x), headHeight-4, bottom-8)
		fmt.Fprintf(b, `<text x="%s" y="%g" text-anchor="middle">%s</text>`+"\n", px(x), bottom+10, span(at))
	}
}

// x returns the position of a time.
func (c *Comparison) x(at time.Duration) float64 {
	return plotLeft + plotWidth*float64(at)/float64(c.Traffic.Length)
}

// px returns a measure, rounded to a tenth of a px.
func px(v float64) string { return fmt.Sprintf("%g", float64(int64(v*10+0.5))/10) }

// strip draws the results of one limiter.
func (c *Comparison) strip(b *strings.Builder, s *Strip, top float64, highest int64) {
	base := top + stripHeight
	fmt.Fprintf(b, `<text class="name" x="16" y="%g">%s</text>`, top+10, html.EscapeString(s.Name))
	note := fmt.Sprintf("%d of %d", s.Admitted, len(c.Traffic.Requests))
	if s.Wait > 0 {
		note += ", waits " + span(time.Duration(s.Wait))
	}
	fmt.Fprintf(b, `<text x="16" y="%g">%s</text>`, top+27, note)
	class := ""
	if s.Worst > c.Plan.Rate {
		class = ` class="bad"`
		from := time.Duration(s.WorstAt)
		fmt.Fprintf(b, `<rect class="wash" x="%s" y="%g" width="%s" height="%g"/>`,
			px(c.x(from)), top-6, px(c.x(min(from+c.Plan.Per, c.Traffic.Length))-c.x(from)), stripHeight+6)
	}
	fmt.Fprintf(b, `<text x="16" y="%g"%s>%s</text>`+"\n", top+43, class, c.worstText(s))
	height := func(n int64) float64 { return (stripHeight - 4) * float64(n) / float64(highest) }
	c.area(b, "came", c.bars(c.arrivals()), base, height)
	c.area(b, "went", c.bars(s.Grants), base, height)
	c.area(b, "over", c.bars(c.over(s)), base, height)
	fmt.Fprintf(b, `<path class="rule" d="M%g %gH%g"/>`+"\n", plotLeft, base, plotLeft+plotWidth)
	c.line(b, s.Left, base)
}

// area draws bars that stand side by side, as one shape for each run of them.
func (c *Comparison) area(b *strings.Builder, class string, bars []int64, base float64,
	height func(n int64) float64) {
	var path strings.Builder
	bin := c.Plan.bin(c.Traffic)
	for i := 0; i < len(bars); i++ {
		if bars[i] == 0 {
			continue
		}
		fmt.Fprintf(&path, "M%s %g", px(c.x(time.Duration(i)*bin)), base)
		for ; i < len(bars) && bars[i] > 0; i++ {
			next := i
			for next+1 < len(bars) && bars[next+1] == bars[i] {
				next++
			}
			i = next
			end := min(time.Duration(i+1)*bin, c.Traffic.Length)
			fmt.Fprintf(&path, "V%sH%s", px(base-height(bars[i])), px(c.x(end)))
		}
		fmt.Fprintf(&path, "V%gz", base)
	}
	if path.Len() > 0 {
		fmt.Fprintf(b, `<path class="%s" d="%s"/>`+"\n", class, path.String())
	}
}

// line draws the remaining part. It skips samples on a straight line between their neighbours.
func (c *Comparison) line(b *strings.Builder, left []float64, base float64) {
	if len(left) == 0 {
		return
	}
	step := c.Plan.step(c.Traffic)
	y := func(i int) string { return px(base - (stripHeight-4)*left[i]) }
	var path strings.Builder
	for i := range left {
		const little = 1e-9
		if i > 0 && i+1 < len(left) {
			if bend := left[i+1] - 2*left[i] + left[i-1]; bend < little && bend > -little {
				continue
			}
		}
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&path, "%s%s %s", letter, px(c.x(time.Duration(i)*step)), y(i))
	}
	for _, class := range []string{"halo", "left"} { // it lies on bars of other colours
		fmt.Fprintf(b, `<path class="%s" d="%s"/>`+"\n", class, path.String())
	}
}
