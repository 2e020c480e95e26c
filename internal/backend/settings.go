package backend

import "time"

// Settings are what admins change at run time. A zero value means the default, which WithDefaults fills in.
type Settings struct {
	Scheduler SchedulerSettings `json:"scheduler,omitzero"`
	Routing   RoutingSettings   `json:"routing,omitzero"`
	Retry     RetrySettings     `json:"retry,omitzero"`
	Energy    EnergySettings    `json:"energy,omitzero"`
}

// SchedulerSettings bound the wait for a slot and price the work.
type SchedulerSettings struct {
	CapacityWait   time.Duration `json:"capacity_wait,omitempty"`
	FairnessWindow time.Duration `json:"fairness_window,omitempty"`
	BurstCredit    float64       `json:"burst_credit,omitempty"`
	WaitBonus      float64       `json:"wait_bonus,omitempty"`
	Slack          float64       `json:"slack,omitempty"`
	InputPrice     float64       `json:"input_price,omitempty"` // token-equivalents per token
	CachedPrice    float64       `json:"cached_price,omitempty"`
	OutputPrice    float64       `json:"output_price,omitempty"`
}

// RoutingSettings choose how backends are scored.
type RoutingSettings struct {
	Mode   string             `json:"mode,omitempty"`
	Points map[string]float64 `json:"points,omitempty"`
}

// RetrySettings bound how long and how often a request is tried.
type RetrySettings struct {
	Attempts        int           `json:"attempts,omitempty"`
	FirstOutput     time.Duration `json:"first_output,omitempty"`
	Idle            time.Duration `json:"idle,omitempty"`
	BreakerFailures int           `json:"breaker_failures,omitempty"`
	BreakerCooldown time.Duration `json:"breaker_cooldown,omitempty"`
}

// EnergySettings turn watts into energy, money and CO2.
type EnergySettings struct {
	FacilityFactor float64 `json:"facility_factor,omitempty"`
	PricePerKWh    float64 `json:"price_per_kwh,omitempty"`
	Currency       string  `json:"currency,omitempty"`
	KgCO2PerKWh    float64 `json:"kg_co2_per_kwh,omitempty"`
}

// WithDefaults returns s with everything set that was not.
func (s Settings) WithDefaults() Settings {
	sc := &s.Scheduler
	def(&sc.CapacityWait, 150*time.Second)
	def(&sc.FairnessWindow, 60*time.Second)
	def(&sc.BurstCredit, 4)
	def(&sc.WaitBonus, 0.5)
	def(&sc.Slack, 0.5)
	def(&sc.InputPrice, 1)
	def(&sc.CachedPrice, 0.1)
	def(&sc.OutputPrice, 2)
	def(&s.Routing.Mode, "points")
	rt := &s.Retry
	def(&rt.Attempts, 3)
	def(&rt.FirstOutput, 180*time.Second)
	def(&rt.Idle, 60*time.Second)
	def(&rt.BreakerFailures, 3)
	def(&rt.BreakerCooldown, 30*time.Second)
	en := &s.Energy
	def(&en.FacilityFactor, 1.5)
	def(&en.PricePerKWh, 0.10)
	def(&en.Currency, "USD")
	def(&en.KgCO2PerKWh, 0.4)
	return s
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
