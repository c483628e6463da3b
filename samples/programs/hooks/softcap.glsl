// A cap that scores approach and never pass (Gemma Team 2024); word 0. Built in: vkattn_problem::softcap.
float tanhOf(float x) { // exact for small x too, whatever the driver's tanh is
    const float e = exp(-2.0 * min(abs(x), 30.0)), small = x * (1.0 - x * x * (1.0 / 3.0 - x * x * 2.0 / 15.0));
    return abs(x) < 0.03 ? small : sign(x) * (1.0 - e) / (1.0 + e);
}
float vkattnScore(float score, uint batch, uint head, uint query, uint key) {
    const float cap = vkattnNumber(0u);
    return cap * tanhOf(score / cap);
}
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) {
    const float t = tanhOf(score / vkattnNumber(0u));
    return 1.0 - t * t;
}
