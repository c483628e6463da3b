# ctest reads this after the list of tests: the long ones start first, so that no core is idle at
# the end. Seconds on an idle machine of two cores; a test that is not here counts as 0.
set_tests_properties(ConformTwoDriversTest.driverThatBreaksTheListDoesNotStopTheOther FuzzSeeds.device PROPERTIES COST 30)
set_tests_properties(ConformFaultTest.crashOfACaseIsShrunk ConformFaultTest.hangIsEnded ConformFaultTest.deviceThatCannotBeOpenedIsAFailure
  ConformFaultTest.crashAfterCrashEndsTheDevice GlobalProjections.serveTheRowsOfGlobalTokens PROPERTIES COST 15)
set_tests_properties(KillTest.outputsOfRunAreWholeOrOld KillTest.theTuningFileIsWholeOrOld PROPERTIES COST 15)
set_tests_properties(kernels Heap.isNotTouchedByRecording Describe.saysWhatIsRecorded RandomRun.combinations PROPERTIES COST 10)
