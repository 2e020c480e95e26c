package timing_test

import (
	"math"
	"testing"
	"time"

	"mindrouter/internal/simbackend/timing"
)

func TestOneStreamAloneDecodesAtItsRate(t *testing.T) {
	t.Parallel()
	m := timing.Model{DecodeTPS: 40, SaturationTPS: 400}.WithDefaults()
	for _, batch := range []int{-1, 0, 1} {
		if got, want := m.TokenInterval(batch), 25*time.Millisecond; got != want {
			t.Errorf("TokenInterval(%d) = %v, want %v", batch, got, want)
		}
	}
}

func TestABatchSlowsEachStreamAndSpeedsTheServer(t *testing.T) {
	t.Parallel()
	m := timing.Model{}.WithDefaults()
	for batch := 1; batch < 512; batch++ {
		if m.TokenInterval(batch+1) <= m.TokenInterval(batch) {
			t.Fatalf("interval does not grow from %d to %d streams", batch, batch+1)
		}
		if m.TotalTPS(batch+1) <= m.TotalTPS(batch) {
			t.Fatalf("total does not grow from %d to %d streams", batch, batch+1)
		}
		if m.TotalTPS(batch) > m.SaturationTPS {
			t.Fatalf("total of %d streams is %v, above saturation %v", batch, m.TotalTPS(batch), m.SaturationTPS)
		}
	}
	if got := m.TotalTPS(100_000); got < 0.99*m.SaturationTPS {
		t.Errorf("total of a huge batch is %v, want about %v", got, m.SaturationTPS)
	}
}

func TestTotalIsHalfOfSaturationAtTheDocumentedBatch(t *testing.T) {
	t.Parallel()
	m := timing.Model{DecodeTPS: 40, SaturationTPS: 1640}.WithDefaults()
	if got, want := m.TotalTPS(40), 820.0; math.Abs(got-want) > 0.01 {
		t.Errorf("TotalTPS(40) = %v, want %v", got, want)
	}
}

func TestStepsOfAFit(t *testing.T) {
	t.Parallel()
	m := timing.FromSteps(18*time.Millisecond, 150*time.Microsecond, 80*time.Microsecond).WithDefaults()
	for _, c := range []struct {
		decoding, prefill int
		want              time.Duration
	}{
		{0, 0, 0},
		{1, 0, 18150 * time.Microsecond},
		{16, 0, 20400 * time.Microsecond},
		{0, 100, 8 * time.Millisecond},
		{16, 100, 28400 * time.Microsecond},
		{0, 5000, 81920 * time.Microsecond}, // one chunk of 1024
	} {
		got := m.StepTime(c.decoding, c.prefill)
		if diff := (got - c.want).Abs(); diff > time.Microsecond {
			t.Errorf("StepTime(%d, %d) = %v, want %v", c.decoding, c.prefill, got, c.want)
		}
	}
}

func TestPrefillDecodeAndMemoryAreLinear(t *testing.T) {
	t.Parallel()
	m := timing.Model{PrefillTPS: 1000, DecodeTPS: 10, KVTokens: 200}.WithDefaults()
	if got, want := m.PrefillTime(500), 500*time.Millisecond; got != want {
		t.Errorf("PrefillTime(500) = %v, want %v", got, want)
	}
	if got := m.PrefillTime(-1); got != 0 {
		t.Errorf("PrefillTime(-1) = %v, want 0", got)
	}
	if got, want := m.DecodeTime(5, 1), 500*time.Millisecond; got != want {
		t.Errorf("DecodeTime(5, 1) = %v, want %v", got, want)
	}
	for tokens, want := range map[int]float64{-5: 0, 0: 0, 50: 0.25, 200: 1, 999: 1} {
		if got := m.KVUsage(tokens); got != want {
			t.Errorf("KVUsage(%d) = %v, want %v", tokens, got, want)
		}
	}
}

func TestValidateNamesEveryBadParameter(t *testing.T) {
	t.Parallel()
	if err := (timing.Model{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for name, m := range map[string]timing.Model{
		"negative prefill":        {PrefillTPS: -1},
		"infinite decode":         {DecodeTPS: math.Inf(1)},
		"not a number":            {DecodeTPS: math.NaN()},
		"saturation below decode": {DecodeTPS: 40, SaturationTPS: 20},
		"negative load":           {LoadDelay: -time.Second},
		"negative memory":         {KVTokens: -1},
		"negative chunk":          {ChunkTokens: -1},
	} {
		if err := m.WithDefaults().Validate(); err == nil {
			t.Errorf("%s: Validate() = nil, want an error", name)
		}
	}
}
