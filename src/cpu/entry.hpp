// What every entry point of the CPU does around its own work, whatever is computed: a description becomes its
// validated form, memory is bound to the form's operands, and errors are said.
#pragma once

#include "cpu/operands.hpp"
#include "cpu/pool.hpp"
#include "cpu/program.hpp"
#include "cpu/workspace.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <new>

namespace vkattn {

// What makes a form of a description: makeProblem, makeOperation, makeGradient, makeStatistics.
template <class Description, class Form> using Make = vkattn_result (*)(const Description *, Form &, vkattn_diagnostic *);

// A form with the memory of its operands.
template <class Form> struct Bound {
    Form form;
    Operands operands;
};

template <class Description, class Form>
[[nodiscard]] vkattn_result bind(Make<Description, Form> make, const Description *description, const vkattn_operand_memory *memory,
                                 uint32_t count, Bound<Form> &out, vkattn_diagnostic *why) {
    if (const auto r = make(description, out.form, why)) return r;
    return bindOperands(out.form, memory, count, out.operands, why);
}

// The same as bind, for what is to be computed: where a form has a program, the processor must have
// the program's hooks too.
template <class Description, class Form>
[[nodiscard]] vkattn_result bindToCompute(Make<Description, Form> make, const Description *description, const vkattn_operand_memory *memory,
                                          uint32_t count, Bound<Form> &out, vkattn_diagnostic *why) {
    if (const auto r = bind(make, description, memory, count, out, why)) return r;
    return checkProgramForCpu(out.form, why);
}

template <class Description, class Form>
[[nodiscard]] vkattn_result checkOperands(Make<Description, Form> make, const Description *description, const vkattn_operand_memory *memory,
                                          uint32_t count, vkattn_diagnostic *why) {
    Bound<Form> ignored;
    return bind(make, description, memory, count, ignored, why);
}

// Calls compute(form, operands). `use`: what host memory is needed for, in the message that there is none.
template <class Description, class Form, class Compute>
[[nodiscard]] vkattn_result computeBound(Make<Description, Form> make, const Description *description, const vkattn_operand_memory *memory,
                                         uint32_t count, vkattn_diagnostic *why, const char *use, const Compute &compute) {
    Bound<Form> bound;
    if (const auto r = bindToCompute(make, description, memory, count, bound, why)) return r;
    try {
        compute(bound.form, bound.operands);
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", use);
    }
    return VKATTN_OK;
}

// Calls verify(form, operands, options, report).
template <class Description, class Form, class Verify>
[[nodiscard]] vkattn_result verifyBound(Make<Description, Form> make, const Description *description, const vkattn_operand_memory *memory,
                                        uint32_t count, const vkattn_verify_options *options, vkattn_verify_report *report,
                                        vkattn_diagnostic *why, const char *use, const Verify &verify) {
    if (!report) return fail(why, invalid, "report is NULL");
    vkattn_verify_options chosen{};
    if (options) {
        if (const auto r = checkStructSize(*options, "options", "vkattn_verify_options", why)) return r;
        vkattn_verify_options room;
        chosen = completed(*options, room);
    }
    return computeBound(make, description, memory, count, why, use,
                        [&](const Form &form, const Operands &operands) { verify(form, operands, chosen, *report); });
}

// `source`: the call that says how many bytes are needed.
[[nodiscard]] inline vkattn_result checkWorkspace(const void *workspace, uint64_t given, uint64_t needed, const char *source,
                                                  vkattn_diagnostic *why) {
    if (needed == 0 || (workspace && given >= needed)) return VKATTN_OK;
    return fail(why, invalid, "workspace has %llu bytes, expected at least %llu: %s says how many",
                static_cast<unsigned long long>(workspace ? given : 0), static_cast<unsigned long long>(needed), source);
}

// A Cut follows from a form, the processor and the threads of a pool alone. Its bytes() are the workspace that
// a call needs.
template <class Cut, class Description, class Form>
[[nodiscard]] vkattn_result workspaceOf(Make<Description, Form> make, const Description *description, const Pool &pool, uint64_t &bytes,
                                        vkattn_diagnostic *why) {
    Form form;
    if (const auto r = make(description, form, why)) return r;
    bytes = Cut(form, pool).bytes();
    return VKATTN_OK;
}

// Calls run(cut, form, operands, parts of the workspace).
template <class Cut, class Description, class Form, class Run>
[[nodiscard]] vkattn_result runBound(const Pool &pool, Make<Description, Form> make, const Description *description,
                                     const vkattn_operand_memory *memory, uint32_t count, void *workspace, uint64_t workspaceBytes,
                                     vkattn_diagnostic *why, const Run &run) {
    Bound<Form> bound;
    if (const auto r = bindToCompute(make, description, memory, count, bound, why)) return r;
    const Cut cut(bound.form, pool);
    if (const auto r = checkWorkspace(workspace, workspaceBytes, cut.bytes(), "vkattnCpuOperationWorkspace", why)) return r;
    run(cut, bound.form, bound.operands, WorkspaceParts(workspace));
    return VKATTN_OK;
}

} // namespace vkattn
