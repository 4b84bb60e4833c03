package main

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A picture shows one figure by number of callers, a curve for each contestant.
type picture struct {
	file, title, axis string
	figure            func(*rowData) float64
}

// pictures are those of the page. Both axes are logarithmic: callers grow by
// eight from column to column, and contestants differ by a factor of fifty.
var pictures = []picture{
	{"bench-throughput", "Acquires per second", "per second, more is better",
		func(r *rowData) float64 { return r.PerSecond }},
	{"bench-latency", "Latency, p99", "µs, less is better",
		func(r *rowData) float64 { return r.P99 }},
	{"bench-cpu", "CPU of Redis per acquire", "µs, less is better",
		func(r *rowData) float64 { return r.CPU }},
}

// strokes are how the contestants are drawn: in colours that colour-blind
// readers can tell apart (Okabe and Ito), each with a mark of its own.
var strokes = [contestants]struct {
	color color.RGBA
	mark  draw.GlyphDrawer
	width vg.Length
}{
	floor:    {color.RGBA{0x77, 0x77, 0x77, 0xff}, draw.CrossGlyph{}, 1.2},
	ours:     {color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.CircleGlyph{}, 3},
	alone:    {color.RGBA{0xe6, 0x9f, 0x00, 0xff}, draw.RingGlyph{}, 1.6},
	redisson: {color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.BoxGlyph{}, 1.6},
	rate:     {color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.TriangleGlyph{}, 1.6},
	fixed:    {color.RGBA{0xcc, 0x79, 0xa7, 0xff}, draw.PyramidGlyph{}, 1.6},
}

// save draws the picture. The end of the file's name says in which format.
func (p picture) save(d *callersData, file string) error {
	chart := plot.New()
	chart.BackgroundColor = color.White // readable in a dark theme, too
	chart.Title.Text, chart.Title.Padding = p.title, 10
	chart.X.Label.Text, chart.Y.Label.Text = "callers", p.axis
	for _, f := range []*font.Font{
		&chart.Title.TextStyle.Font, &chart.X.Label.TextStyle.Font, &chart.Y.Label.TextStyle.Font,
		&chart.X.Tick.Label.Font, &chart.Y.Tick.Label.Font, &chart.Legend.TextStyle.Font,
	} {
		f.Variant, f.Size = "Sans", 13
	}
	chart.Title.TextStyle.Font.Size = 17
	chart.X.Scale, chart.Y.Scale = plot.LogScale{}, plot.LogScale{}
	chart.X.Tick.Marker, chart.Y.Tick.Marker = countTicks(d), plot.TickerFunc(decades)

	// The grid is light, so that curves stand out from it.
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xc8}, color.Gray{0xc8}
	chart.Add(grid)
	legend := plot.NewLegend()
	legend.TextStyle = chart.Legend.TextStyle
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, 6, 30
	for _, who := range shown {
		if err := p.curve(chart, &legend, d, who); err != nil {
			return err
		}
	}
	chart.Y.Min, chart.Y.Max = chart.Y.Min/1.6, chart.Y.Max*1.6 // no curve touches the frame
	return p.write(chart, legend, file)
}

// curve adds the curve of a contestant, if it has one.
func (p picture) curve(chart *plot.Plot, legend *plot.Legend, d *callersData, who int) error {
	var points plotter.XYs
	for i := range d.Tables {
		row := d.Tables[i].row(who)
		if row != nil && p.figure(row) > 0 { // a logarithm has no 0
			points = append(points, plotter.XY{X: float64(d.Tables[i].Callers), Y: p.figure(row)})
		}
	}
	if len(points) == 0 {
		return nil
	}
	// Marks at the figures: between them the curve is only a guide for the eye.
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	s := strokes[who]
	line.Color, line.Width = s.color, s.width
	marks.Color, marks.Shape, marks.Radius = s.color, s.mark, 4
	chart.Add(line, marks)
	legend.Add(labels[who], line, marks)
	return nil
}

// write puts the legend to the right of the chart: on the chart it would hide
// curves.
func (p picture) write(chart *plot.Plot, legend plot.Legend, file string) error {
	// 760 is what a page has room for; 190 holds the longest label.
	const width, height, margin, beside = 760, 430, 12, 190
	c, err := draw.NewFormattedCanvas(width, height, format(file))
	if err != nil {
		return err
	}
	whole := draw.New(c)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	chart.Draw(draw.Crop(whole, margin, -margin-beside, margin, -margin))
	legend.Draw(draw.Crop(whole, width-beside, 0, margin, -50))
	return writeCanvas(c, file)
}

// countTicks returns a tick for each number of callers.
func countTicks(d *callersData) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(d.Tables))
	for i := range d.Tables {
		n := float64(d.Tables[i].Callers)
		ticks[i] = plot.Tick{Value: n, Label: thousands(n)}
	}
	return ticks
}

// decades returns a tick for each power of ten. Those of gonum are labelled
// 1e+03, which few people read at a glance.
func decades(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		label := strconv.FormatFloat(v, 'g', -1, 64)
		if v >= 1000 {
			label = thousands(v)
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}
