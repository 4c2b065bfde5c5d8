/* Random events, lying numbers among them, against the broker's policy: its checker holds after each. */
#include "broker/policy.h"
#include "test.h"

static uint64_t state;

static uint64_t roll(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static uint64_t number(void) {
    static const uint64_t odd[] = {0, 1, UINT64_MAX, UINT64_MAX / 2, 1ull << 40};
    return roll(20) ? roll(1000) << 20 : odd[roll(5)];
}

static void event(struct policy *p, uint64_t now) {
    static uint64_t sums;
    uint32_t tenant = (uint32_t)roll(30);
    struct policy_group group = {number(),         (uint32_t)roll(1100), (uint32_t)roll(1100), (uint32_t)roll(3),
                                 (int32_t)roll(3), (uint32_t)roll(3),    (uint32_t)roll(4)};
    struct policy_report report = {number(), number(), 0,       sums += roll(100), roll(9) ? sums << 20 : number(),
                                   number(), roll(2),  roll(2), roll(2),           roll(2)};
    switch (roll(14)) {
    case 0:
        policy_group(p, now, (uint32_t)roll(9), &group);
        break;
    case 1:
        policy_join(p, now, tenant, (uint32_t)roll(9), roll(4) ? 0 : number(), number());
        break;
    case 2:
        if (roll(8) == 0)
            policy_leave(p, now, tenant);
        break;
    case 3:
        policy_group_gone(p, now, (uint32_t)roll(9));
        break;
    case 4:
        if (roll(20) == 0)
            policy_capacity(p, now, number());
        break;
    case 5:
        policy_turn(p, now, roll(2) ? 0 : number());
        break;
    case 6:
        policy_acknowledge(p, now, tenant, roll(50), number());
        break;
    case 7:
        policy_drained(p, now, tenant, roll(50));
        break;
    case 8:
        policy_suspend(p, now, tenant, (uint32_t)roll(3));
        break;
    case 9:
        policy_resident(p, now, (uint32_t)roll(4));
        break;
    case 10:
        policy_tick(p, policy_next_ns(p) == UINT64_MAX ? now : policy_next_ns(p));
        break;
    default:
        policy_report(p, now, tenant, &report);
    }
}

static void play(uint64_t seed) {
    state = seed;
    struct policy *p = policy_new(1ull << 30, 1ull << 30);
    CHECK(p);
    uint64_t now = 0;
    struct policy_lease lease;
    struct policy_state sums;
    for (int i = 0; i < 1000; i++) {
        now += roll(4) ? roll(20000000) : roll(3000000000);
        event(p, now);
        const char *wrong = policy_check(p);
        if (wrong)
            TEST_FAIL("seed %llu, event %d: %s\n", (unsigned long long)seed, i, wrong);
        while (policy_next_lease(p, &lease))
            CHECK(lease.tenant && lease.may_issue < 2);
        policy_state(p, &sums);
        CHECK(policy_next_ns(p) > 0);
    }
    policy_free(p);
}

TEST(random_events_keep_the_invariants) {
    for (uint64_t seed = 1; seed <= 40; seed++)
        play(seed);
}

TEST(nothing_to_share_over_no_link) {
    CHECK(!policy_new(1, 0));
}
