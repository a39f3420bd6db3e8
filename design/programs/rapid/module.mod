MODULE {{ name }}
{% for line in header %}
{{ line }}
{% endfor %}
{% if guided %}
    ! the client egm_client.py streams {{ name }}.json while EGMRunJoint waits
{% endif %}
    LOCAL CONST jointtarget exHome := {{ home }};
    LOCAL VAR jointtarget exHere;
    LOCAL PERS tooldata exTool := [TRUE,[[0,0,0],[1,0,0,0]],[0.001,[0,0,0.001],[1,0,0,0],0,0,0]];
{% if payload %}
    LOCAL PERS loaddata exLoad := [0.001,[0,0,0.001],[1,0,0,0],0,0,0];
{% endif %}
{% if guided %}
    LOCAL CONST egm_minmax exNear := [-{{ near }},{{ near }}];
    LOCAL VAR egmident exGuide;
{% endif %}
{% if not guided %}
{% for line in tables %}
{{ line }}
{% endfor %}
{% endif %}

    PROC main()
        {{ name }}_run;
    ENDPROC

    PROC {{ name }}_run()
{% if not poses %}
        IF CSpeedOverride() < 100 THEN
            TPWrite "Set the speed override to 100 percent";
            TPWrite "and start again.";
            EXIT;
        ENDIF
        IF OpMode() <> OP_AUTO THEN
            TPWrite "Switch to automatic mode";
            TPWrite "and start again.";
            EXIT;
        ENDIF
{% endif %}
        GetSysData exTool;
{% if payload %}
        GetSysData exLoad;
        IF Abs(exTool.tload.mass + exLoad.mass - {{ mass }}) > {{ LOAD_SLACK }} THEN
            TPWrite "Tool and payload must weigh";
            TPWrite "{{ kg }} kg in all.";
            EXIT;
        ENDIF
{% endif %}
        exHere := CJointT();
        IF Abs(exHere.robax.rax_1 - exHome.robax.rax_1) > {{ AT_HOME }} OR
            Abs(exHere.robax.rax_2 - exHome.robax.rax_2) > {{ AT_HOME }} OR
            Abs(exHere.robax.rax_3 - exHome.robax.rax_3) > {{ AT_HOME }} OR
            Abs(exHere.robax.rax_4 - exHome.robax.rax_4) > {{ AT_HOME }} OR
            Abs(exHere.robax.rax_5 - exHome.robax.rax_5) > {{ AT_HOME }} OR
            Abs(exHere.robax.rax_6 - exHome.robax.rax_6) > {{ AT_HOME }} THEN
            TPWrite "The robot does not stand at home:";
            TPWrite "each axis within {{ AT_HOME }} degrees.";
            EXIT;
        ENDIF
        ! a fine point to begin with, and the tool that is in use
{% if guided %}
        MoveAbsJ exHere \NoEOffs, v10 \T:=1, fine, exTool;
        EGMReset exGuide;
        EGMGetId exGuide;
        EGMSetupUC ROB_1, exGuide, "default", "{{ device }}" \Joint \CommTimeout:=1;
        EGMActJoint exGuide \Tool:=exTool \J1:=exNear \J2:=exNear \J3:=exNear \J4:=exNear \J5:=exNear \J6:=exNear
            \LpFilter:=100 \SampleRate:={{ sample_ms }} \MaxSpeedDeviation:={{ limit }};
        ! ends when the joints have stood still for longer than in any pause of the run
        EGMRunJoint exGuide, EGM_STOP_HOLD \J1 \J2 \J3 \J4 \J5 \J6 \CondTime:={{ wait }} \RampInTime:=0.05;
        EGMReset exGuide;
        TPWrite "The run has ended.";
        EXIT;
{% endif %}
{% if not guided %}
        MoveAbsJ exHome \NoEOffs, v10 \T:=1, fine, exTool;
{% if not poses %}
        SetGO ex_mark, {{ OUT }};
{% endif %}
{% for line in out %}
{{ line }}
{% endfor %}
{% if not poses %}
        WaitTime \InPos, 1;
        SetDO ex_log, 1;
{% for line in body %}
{{ line }}
{% endfor %}
        SetDO ex_log, 0;
        WaitTime \InPos, 1;
        SetGO ex_mark, {{ BACK }};
{% for line in back %}
{{ line }}
{% endfor %}
        WaitRob \ZeroSpeed;
        SetGO ex_mark, {{ END }};
{% endif %}
        EXIT;
{% endif %}
    ERROR
{% if guided %}
        EGMReset exGuide;
        IF ERRNO = ERR_UDPUC_COMM THEN
            TPWrite "The client does not answer;";
            TPWrite "it says why.";
        ENDIF
{% endif %}
        TPWrite "Stopped by error " \Num:=ERRNO;
        TPWrite "Jog home, begin again.";
        EXIT;
    ENDPROC
ENDMODULE
